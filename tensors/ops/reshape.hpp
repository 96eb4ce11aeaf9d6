#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// The same elements in another shape; no copy, forward or backward. One extent
/// may be -1: whatever is left.
/// @errors throws std::logic_error with both shapes.
tensor reshape(const tensor& x, std::span<const std::int64_t> extents);
tensor reshape(const tensor& x, const shape& dims);

namespace ops {

extern const op reshape;

} // namespace ops

} // namespace troupe
