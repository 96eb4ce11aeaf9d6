#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>

// Counts and sums over a batch, which replicas may add up; a mean is what
// remains to whoever knows the number of all examples.

namespace troupe::models {

/// How many examples have their largest score at their label; of equal scores
/// the first counts. A row with a NaN predicts nothing.
/// @shape scores  [n, classes] float32
/// @shape labels  [n] int32, each in [0, classes)
/// @errors throws std::logic_error with the shapes, or with the label that is
///         out of range.
std::uint64_t correct(const tensor& scores, const tensor& labels);

/// The sum of each example's loss, added in order.
/// @shape losses  [n] float32
double total(const tensor& losses);

} // namespace troupe::models
