#pragma once

#include "troupe/data/pipeline/dataset.hpp"

namespace troupe::data {

struct synthetic_options {
  shape example = {784};
  std::uint64_t examples = 1024;
  std::int64_t classes = 10;
  std::uint64_t seed = 0;
};

/// Random data for measurements: standard normal inputs, and uniformly
/// distributed labels that are independent of the inputs.
/// @shape inputs [examples, ...example] float32.
/// @errors throws std::invalid_argument for 0 examples or 0 classes.
dataset synthetic(const synthetic_options& options = {});

} // namespace troupe::data
