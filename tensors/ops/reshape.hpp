#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// Returns the same elements in another shape, without a copy in forward or
/// backward. One extent may be -1: it is computed from the others.
/// @errors throws std::logic_error with both shapes.
tensor reshape(const tensor& x, std::span<const std::int64_t> extents);
tensor reshape(const tensor& x, const shape& dims);

namespace ops {

extern const op reshape;

} // namespace ops

} // namespace troupe
