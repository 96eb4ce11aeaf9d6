#include "troupe/tensors/cuda/kernels/plane_pooling.hpp"

#include "troupe/tensors/cuda/kernels/rows.cuh"

#include <algorithm>

namespace troupe::cuda {

namespace {

/// A block of `tile` x `rows` threads computes one tile after the other:
/// `tile` channels of `tile` windows of an image. Neighboring threads have
/// neighboring windows where they access planes, and neighboring channels where
/// they access results.
constexpr int tile = 32, rows = 8;
constexpr std::size_t max_blocks = 8192;

struct extents {
  explicit extents(const pool_window& w)
    : channels{int(w.channels)},
      out_width{int(w.out_width)},
      windows{int(w.out_height * w.out_width)},
      channel_tiles{(channels + tile - 1) / tile},
      tiles{std::size_t((windows + tile - 1) / tile) * channel_tiles
            * w.count} {}

  int channels, out_width;
  int windows;       ///< Of an image.
  int channel_tiles; ///< For the same windows.
  std::size_t tiles; ///< Of all images.
};

struct tile_place {
  __device__ tile_place(const extents& e, std::size_t number) {
    const int across = (e.windows + tile - 1) / tile;
    const int in_image = int(number % std::size_t(across * e.channel_tiles));
    image = number / std::size_t(across * e.channel_tiles);
    window = in_image / e.channel_tiles * tile;
    channel = in_image % e.channel_tiles * tile;
  }

  std::size_t image;
  int window, channel; ///< The first ones.
};

/// Returns the address of the upper left element of a window, in a plane.
template <class T>
__device__ T* in_plane(const extents& e, T* planes, std::size_t image,
                       int channel, int window) {
  const int width = 2 * e.out_width;
  const int i = window / e.out_width, j = window - i * e.out_width;
  return planes + (image * e.channels + channel) * (4 * e.windows)
         + 2 * (i * width + j);
}

__global__ void __launch_bounds__(tile* rows)
  pool_planes(extents e, const float* __restrict__ x,
              const float* __restrict__ bias, bool relu,
              float* __restrict__ out, std::uint8_t* __restrict__ indices) {
  // One more column, so that the elements of a column are in different banks.
  __shared__ float values[tile][tile + 1];
  __shared__ std::uint8_t positions[tile][tile + 4];
  for (auto number = std::size_t{blockIdx.x}; number < e.tiles;
       number += gridDim.x) {
    const tile_place at{e, number};
    const int window = at.window + threadIdx.x;
    for (int c = threadIdx.y; c < tile; c += rows) {
      const int channel = at.channel + c;
      if (window >= e.windows || channel >= e.channels)
        continue;
      const float* const from = in_plane(e, x, at.image, channel, window);
      const auto upper = *reinterpret_cast<const float2*>(from),
                 lower =
                   *reinterpret_cast<const float2*>(from + 2 * e.out_width);
      const float b = bias[channel];
      const float four[] = {upper.x + b, upper.y + b, lower.x + b, lower.y + b};
      float best = four[0];
      int index = 0;
#pragma unroll
      for (int p = 1; p < 4; ++p)
        if (four[p] > best || (four[p] != four[p] && best == best)) {
          best = four[p];
          index = p;
        }
      values[c][threadIdx.x] = relu ? relu_of(best) : best;
      positions[c][threadIdx.x] = static_cast<std::uint8_t>(index);
    }
    __syncthreads();
    const int channel = at.channel + threadIdx.x;
    for (int w = threadIdx.y; w < tile; w += rows) {
      if (at.window + w >= e.windows || channel >= e.channels)
        continue;
      const auto to =
        (at.image * e.windows + at.window + w) * e.channels + channel;
      out[to] = values[threadIdx.x][w];
      indices[to] = positions[threadIdx.x][w];
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(tile* rows)
  pool_planes_backward(extents e, const float* __restrict__ grad_out,
                       const std::uint8_t* __restrict__ indices,
                       float* __restrict__ grad_x) {
  __shared__ float values[tile][tile + 1];
  __shared__ std::uint8_t positions[tile][tile + 4];
  for (auto number = std::size_t{blockIdx.x}; number < e.tiles;
       number += gridDim.x) {
    const tile_place at{e, number};
    const int channel_of_lane = at.channel + threadIdx.x;
    for (int w = threadIdx.y; w < tile; w += rows) {
      if (at.window + w >= e.windows || channel_of_lane >= e.channels)
        continue;
      const auto from =
        (at.image * e.windows + at.window + w) * e.channels + channel_of_lane;
      values[threadIdx.x][w] = grad_out[from];
      positions[threadIdx.x][w] = indices[from];
    }
    __syncthreads();
    const int window = at.window + threadIdx.x;
    for (int c = threadIdx.y; c < tile; c += rows) {
      const int channel = at.channel + c;
      if (window >= e.windows || channel >= e.channels)
        continue;
      const float gradient = values[c][threadIdx.x];
      const int index = positions[c][threadIdx.x];
      float* const to = in_plane(e, grad_x, at.image, channel, window);
      *reinterpret_cast<float2*>(to) =
        make_float2(index == 0 ? gradient : 0.0f, index == 1 ? gradient : 0.0f);
      *reinterpret_cast<float2*>(to + 2 * e.out_width) =
        make_float2(index == 2 ? gradient : 0.0f, index == 3 ? gradient : 0.0f);
    }
    __syncthreads();
  }
}

unsigned blocks_for(const extents& e) {
  return static_cast<unsigned>(std::min(e.tiles, max_blocks));
}

} // namespace

bool has_plane_kernel(const pool_window& w) {
  constexpr std::size_t max = std::size_t{1} << 28;
  return w.window_height == 2 && w.window_width == 2 && w.stride_height == 2
         && w.stride_width == 2 && w.top == 0 && w.left == 0
         && w.height == 2 * w.out_height && w.width == 2 * w.out_width
         && w.out_height * w.out_width < max && w.channels < max;
}

cudaError_t bias_max_pool_planes(const pool_window& window, const float* x,
                                 const float* bias, bool relu, float* out,
                                 std::uint8_t* indices, cudaStream_t stream) {
  const extents e{window};
  if (e.tiles == 0)
    return cudaSuccess;
  pool_planes<<<blocks_for(e), dim3(tile, rows), 0, stream>>>(e, x, bias, relu,
                                                              out, indices);
  return cudaGetLastError();
}

cudaError_t max_pool_planes_backward(const pool_window& window,
                                     const float* grad_out,
                                     const std::uint8_t* indices, float* grad_x,
                                     cudaStream_t stream) {
  const extents e{window};
  if (e.tiles == 0)
    return cudaSuccess;
  pool_planes_backward<<<blocks_for(e), dim3(tile, rows), 0, stream>>>(
    e, grad_out, indices, grad_x);
  return cudaGetLastError();
}

} // namespace troupe::cuda
