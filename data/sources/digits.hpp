#pragma once

#include "troupe/data/pipeline/dataset.hpp"

namespace troupe::data {

struct digits_options {
  std::uint64_t examples = 14'000;
  std::uint64_t seed = 1;
};

/// Drawn digits, for where no data is at hand: pen strokes with a hand's
/// irregularity, at random places, angles, sizes, slants and thicknesses, with
/// noise. Image i depends on (seed, i) alone, and has the same bits everywhere.
/// A linear model stays below 90% on them.
///
/// @shape inputs [examples, 28, 28, 1] float32 in [0, 1], ink is 1; labels 0-9.
/// @errors throws std::invalid_argument for no examples, or more than 2^24.
/// @cost 784 bytes an example; some 20 us to draw it.
dataset digits(const digits_options& options = {});

} // namespace troupe::data
