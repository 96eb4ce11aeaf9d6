#pragma once

#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/cuda/elements.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

// What the kernels of convolutions and poolings have in common. Only .cu files
// include this file.

namespace troupe::cuda {

/// Threads for a kernel over a matrix of elements. Neighboring threads have
/// neighboring elements of a row, or of several rows if they are short.
struct row_threads {
  static constexpr unsigned per_block = 256, max_blocks = 8192;

  row_threads(std::size_t rows, std::size_t width) {
    while (block.x < per_block && block.x < width)
      block.x *= 2;
    block.y = per_block / block.x;
    const auto across = (width + block.x - 1) / block.x;
    grid.y = static_cast<unsigned>(std::min<std::size_t>(across, max_blocks));
    const auto down = (rows + block.y - 1) / block.y;
    grid.x = static_cast<unsigned>(
      std::min<std::size_t>(down, std::max(max_blocks / grid.y, 1u)));
  }

  dim3 grid, block;
};

/// True if a kernel can compute with indices of 32 bits below `count`.
constexpr bool is_index(std::size_t count) {
  return count < (1u << 31);
}

/// Calls `fn(row, at)` for the elements of this thread, in a kernel that was
/// started with `row_threads`.
/// @pre `is_index(width)`
template <class F>
__device__ void each_in_rows(std::size_t rows, std::uint32_t width, F fn) {
  const auto down = std::size_t{gridDim.x} * blockDim.y;
  for (auto row = std::size_t{blockIdx.x} * blockDim.y + threadIdx.y;
       row < rows; row += down)
    for (auto at = blockIdx.y * blockDim.x + threadIdx.x; at < width;
         at += gridDim.y * blockDim.x)
      fn(row, at);
}

/// x > 0 ? x : 0, and NaN stays NaN.
template <class Number>
__host__ __device__ Number relu_of(Number x) {
  return x <= 0 ? Number{0} : x;
}

/// Calls `fn(T{})`, where T is the element type of `type` in kernels.
/// @returns the result of `fn`, or cudaErrorInvalidValue for other types.
template <class F>
cudaError_t with_float(dtype type, F fn) {
  switch (type) {
    case dtype::float32:
      return fn(float{});
    case dtype::float64:
      return fn(double{});
    case dtype::bfloat16:
      return fn(__nv_bfloat16{});
    default:
      return cudaErrorInvalidValue;
  }
}

/// The same, for float32 and bfloat16 only.
template <class F>
cudaError_t with_float_or_bfloat16(dtype type, F fn) {
  if (type == dtype::float32)
    return fn(float{});
  if (type == dtype::bfloat16)
    return fn(__nv_bfloat16{});
  return cudaErrorInvalidValue;
}

} // namespace troupe::cuda
