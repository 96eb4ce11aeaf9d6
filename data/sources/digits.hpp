#pragma once

#include "troupe/data/pipeline/dataset.hpp"

namespace troupe::data {

struct digits_options {
  std::uint64_t examples = 14'000;
  std::uint64_t seed = 1;
};

/// Generates images like handwritten digits; no data file is needed. Pen
/// strokes have random position, rotation, size, slant, thickness, distortion
/// and noise. Image i depends on (seed, i) only, and has the same bits on all
/// machines. A linear model reaches less than 90% accuracy.
///
/// @shape inputs [examples, 28, 28, 1] float32 in [0, 1], where ink is 1;
///        labels 0-9.
/// @errors throws std::invalid_argument for 0 examples, or more than 2^24.
/// @cost 784 bytes an example; about 20 us to draw it.
dataset digits(const digits_options& options = {});

} // namespace troupe::data
