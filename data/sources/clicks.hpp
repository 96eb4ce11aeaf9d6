#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <cstdint>

namespace troupe::data {

struct clicks_options {
  std::uint64_t examples = 70'000;
  std::uint64_t seed = 1;
  std::int64_t numbers = 13;
  std::int64_t categories = 26;
  /// Categories are in [0, rows). From 1 to 2^24.
  std::int64_t rows = 100'000;
};

/// Generates clicks on advertisements that follow a planted model; no data file
/// is needed. Numbers are normally distributed. The low categories are
/// frequent: each of [0, 1), [1, 3), [3, 7), ... is drawn equally often, which
/// is close to Zipf's law. The score of an example is a weighted sum of its
/// numbers, plus a weight for each category below 63. It is clicked with the
/// probability 1/2 + s / (2 sqrt(1 + s^2)), where s is the score. Example i
/// depends on the options but their `examples`, and on i. It has the same bits
/// on all machines.
///
/// @shape inputs [examples, numbers] float32; the tensor "categories"
///        [examples, categories] int32; labels [examples, 1] float32, 1 for a
///        click and else 0.
/// @errors throws std::invalid_argument for a number out of range.
/// @cost about 2 us an example.
dataset clicks(const clicks_options& options = {});

/// Returns the area under the ROC curve that the planted scores of these
/// examples reach in expectation over their labels. No model reaches a larger
/// area in expectation, because the probability of a click increases with the
/// score.
/// @param first examples without the first ones.
/// @errors as `clicks`.
double best_clicks_auc(const clicks_options& options = {},
                       std::uint64_t first = 0);

} // namespace troupe::data
