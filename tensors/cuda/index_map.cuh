#pragma once

#include "troupe/tensors/base/shape.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::cuda {

/// Maps the index of an element in one shape to an index in another one, by
/// strides.
struct index_map {
  int rank = 0;
  std::size_t extent[shape::max_rank];
  std::size_t stride[shape::max_rank];

  /// Appends an axis behind the others. Axes of extent 1 are left out, and an
  /// axis joins the one before it if both can be one.
  void add(std::int64_t size, std::size_t step) {
    if (size == 1)
      return;
    if (rank > 0 && stride[rank - 1] == step * std::size_t(size)) {
      extent[rank - 1] *= static_cast<std::size_t>(size);
      stride[rank - 1] = step;
      return;
    }
    extent[rank] = static_cast<std::size_t>(size);
    stride[rank++] = step;
  }

  /// True if elements of one row of the last axis have one index.
  __host__ __device__ bool repeats() const {
    return rank > 0 && stride[rank - 1] == 0;
  }

  /// True if each `count` elements from a multiple of `count` on have one
  /// index, or neighboring indices that also begin at a multiple of `count`.
  bool is_packed(std::size_t count) const {
    if (rank == 0)
      return true;
    bool fits =
      (rank == 1 || extent[rank - 1] % count == 0) && stride[rank - 1] <= 1;
    for (int axis = 0; axis < rank - 1 && !repeats(); ++axis)
      fits = fits && stride[axis] % count == 0;
    return fits;
  }

  __host__ __device__ std::size_t operator()(std::size_t i) const {
    std::size_t out = 0;
    for (int axis = rank; axis-- > 0;) {
      out += i % extent[axis] * stride[axis];
      i /= extent[axis];
    }
    return out;
  }
};

/// Returns the map from elements of `target` to those of `x`, which is
/// broadcast to that shape.
inline index_map broadcast_map(const shape& x, const shape& target) {
  std::size_t strides[shape::max_rank] = {};
  std::size_t step = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const auto axis = x.rank() - 1 - i;
    strides[target.rank() - 1 - i] = x[axis] == 1 ? 0 : step;
    step *= std::size_t(x[axis]);
  }
  index_map out;
  for (std::size_t axis = 0; axis < target.rank(); ++axis)
    out.add(target[axis], strides[axis]);
  return out;
}

} // namespace troupe::cuda
