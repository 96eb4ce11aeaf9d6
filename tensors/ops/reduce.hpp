#pragma once

#include "troupe/tensors/op.hpp"

#include <initializer_list>

namespace troupe {

/// Axes of a reduction; negative ones count from the end; none means all.
using axes = std::initializer_list<int>;

/// Adds up along axes, in row-major order and in float64: the bits depend on
/// nothing but the values.
/// @shape x  any, float32 or float64
/// @param keep  leave reduced axes in place, with extent 1
/// @errors throws std::logic_error for an axis out of range or named twice.
tensor reduce_sum(const tensor& x, axes over = {}, bool keep = false);

/// The sum divided by the number of elements reduced; NaN for none.
tensor reduce_mean(const tensor& x, axes over = {}, bool keep = false);

namespace ops {

extern const op reduce_sum, reduce_mean;

} // namespace ops

} // namespace troupe
