#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

// Sums that each block of a kernel makes in part. A second kernel adds the
// parts, in an order that depends on their number only. Only .cu files include
// this file.

namespace troupe::cuda {

inline constexpr unsigned part_columns = 32; ///< Of a block.
inline constexpr unsigned part_threads =
  32; ///< That add the parts of a column.

/// Maximum number of channels of a kernel whose blocks have 32 channels each.
/// They lie along the second axis of the grid, which has at most 65,535 blocks.
/// So an index of weights of 5 x 5 fits into an int.
inline constexpr std::size_t max_channels = std::size_t{65'535} * 32;

/// Thread (i, j) adds each 32nd part of a column. Then thread (i, 0) adds these
/// sums.
template <class Value, class Put>
__global__ void __launch_bounds__(part_columns* part_threads)
  add_parts_kernel(const Value* __restrict__ parts, std::size_t count,
                   std::size_t columns, Put put) {
  __shared__ double sums[part_threads][part_columns];
  const auto column = std::size_t{blockIdx.x} * part_columns + threadIdx.x;
  double sum = 0;
  if (column < columns)
    for (std::size_t part = threadIdx.y; part < count; part += part_threads)
      sum += parts[part * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns)
    return;
  for (unsigned i = 1; i < part_threads; ++i)
    sum += sums[i][threadIdx.x];
  put(column, static_cast<Value>(sum));
}

/// Calls `put(column, sum of the parts)` on the device. The sums are added in
/// float64.
/// @param parts [count, columns]
template <class Value, class Put>
cudaError_t add_parts(const Value* parts, std::size_t count,
                      std::size_t columns, const Put& put,
                      cudaStream_t stream) {
  const auto blocks = (columns + part_columns - 1) / part_columns;
  add_parts_kernel<<<static_cast<unsigned>(blocks),
                     dim3{part_columns, part_threads}, 0, stream>>>(
    parts, count, columns, put);
  return cudaGetLastError();
}

/// Adds the values that the warps of a block have for a channel, and writes the
/// sum to part blockIdx.x.
/// @param row of the part, [rows, channels].
/// @param channel of the lane. That of a lane without one is not below
///        `channels`.
/// @pre the block has 32 x `warps` threads, which all call it.
template <unsigned warps>
__device__ void write_part(float value, unsigned row, unsigned rows,
                           int channel, int channels, float* parts) {
  __shared__ float of_warps[warps][32];
  of_warps[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.y == 0 && channel < channels) {
    float sum = 0;
#pragma unroll
    for (unsigned warp = 0; warp < warps; ++warp)
      sum += of_warps[warp][threadIdx.x];
    parts[(std::size_t{blockIdx.x} * rows + row) * channels + channel] = sum;
  }
  __syncthreads();
}

} // namespace troupe::cuda
