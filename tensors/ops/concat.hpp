#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe {

namespace ops {

/// The axis of a `concat`.
struct joined_axis {
  std::size_t axis = 0;
};

extern const op concat; ///< Options: `joined_axis`.

} // namespace ops

/// Joins tensors along an axis.
/// @param axis counts from the last axis if it is negative.
/// @shape The tensors have one rank of at least 1, one dtype, and equal extents
///        along all other axes.
/// @errors throws std::logic_error with the shapes if they differ, and if there
///         is no tensor or no such axis.
/// @cost one copy of each element.
tensor concat(std::span<const tensor> list, int axis = 0);
tensor concat(std::initializer_list<tensor> list, int axis = 0);

} // namespace troupe
