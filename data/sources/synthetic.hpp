#pragma once

#include "troupe/data/pipeline/dataset.hpp"

namespace troupe::data {

struct synthetic_options {
  shape example = {784};
  std::uint64_t examples = 1024;
  std::int64_t classes = 10;
  std::uint64_t seed = 0;
};

/// Noise, for measurements: standard normal inputs and labels that have nothing
/// to do with them, each class equally likely.
/// @shape inputs [examples, ...example] float32.
/// @errors throws std::invalid_argument for no examples or no classes.
dataset synthetic(const synthetic_options& options = {});

} // namespace troupe::data
