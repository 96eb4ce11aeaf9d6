#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>

// Functions that compute counts and sums over a batch. The counts and sums of
// several replicas can be added. The caller then divides by the total number of
// examples.

namespace troupe::models {

/// Counts the examples whose predicted class is their label. The predicted
/// class has the maximum score; if several classes have it, the first of these
/// classes is the prediction. An example with a NaN among its scores is not
/// counted.
/// @shape scores  [n, classes] float32
/// @shape labels  [n] int32, each in [0, classes)
/// @errors throws std::logic_error with the shapes, or with the label that is
///         out of range.
std::uint64_t correct(const tensor& scores, const tensor& labels);

/// Sums the losses of all examples, in order.
/// @shape losses  [n] float32
double total(const tensor& losses);

} // namespace troupe::models
