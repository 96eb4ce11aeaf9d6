#pragma once

#include "troupe/tensors/op.hpp"

#include <initializer_list>

namespace troupe {

/// Axes of a reduction. Negative axes count from the end. Empty: all axes.
using axes = std::initializer_list<int>;

/// Sums along axes, in row-major order and in float64, so the bits depend on
/// the values only.
/// @shape x  any, float32 or float64
/// @param keep True: reduced axes remain, with extent 1.
/// @errors throws std::logic_error for an axis that is out of range or given
///         twice.
tensor reduce_sum(const tensor& x, axes over = {}, bool keep = false);

/// Computes the mean along axes: the sum divided by the number of reduced
/// elements; NaN for 0 elements.
/// @errors throws std::logic_error for an axis that is out of range or given
///         twice.
tensor reduce_mean(const tensor& x, axes over = {}, bool keep = false);

namespace ops {

extern const op reduce_sum, reduce_mean;

} // namespace ops

} // namespace troupe
