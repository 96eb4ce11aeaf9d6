#include "troupe/tensors/cuda/kernels/weight_gradient.hpp"

#include "troupe/tensors/cuda/kernels/part_sums.cuh"

#include <algorithm>

namespace troupe::cuda {

namespace {

/// A warp adds the products of whole rows of gy for 32 output channels, one for
/// each lane. Its sums for all weights of its channel, and the elements of x
/// that belong to one element of gy, are in registers.
constexpr unsigned lanes = 32, warps = 8;
constexpr unsigned max_blocks = 512; ///< Of a group of 32 channels.

unsigned blocks_of(const conv_geometry& g) {
  const auto rows = static_cast<std::size_t>(g.n * g.oh);
  return static_cast<unsigned>(std::clamp<std::size_t>(
    (rows + warps - 1) / warps, 1, std::size_t{max_blocks}));
}

struct extents {
  int rows; ///< Of gy.
  int h, w, oh, ow, co, top, left;
};

/// Part b of the gradient, [k, k, co], is what block b adds.
template <int k>
__global__ void __launch_bounds__(lanes* warps)
  weight_gradient_parts(extents g, const float* __restrict__ x,
                        const float* __restrict__ gy,
                        float* __restrict__ parts) {
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int channel = blockIdx.y * lanes + lane;
  const bool has_channel = channel < g.co;
  float sums[k][k] = {};
  for (int row = blockIdx.x * warps + warp; row < g.rows;
       row += gridDim.x * warps) {
    const int image = row / g.oh, first = row % g.oh - g.top;
    const float* const from = x + std::ptrdiff_t{image} * g.h * g.w;
    const float* const grad = gy + std::ptrdiff_t{row} * g.ow * g.co + channel;
    // Column c of x for all k rows of x that belong to this row of gy.
    const auto load = [&](float(&to)[k], int c) {
#pragma unroll
      for (int i = 0; i < k; ++i) {
        const int r = first + i;
        const bool is_inside = r >= 0 && r < g.h && c >= 0 && c < g.w;
        to[i] = is_inside ? __ldg(from + r * g.w + c) : 0.0f;
      }
    };
    // Column c is at columns[(c + left) % k].
    float columns[k][k];
#pragma unroll
    for (int j = 0; j < k - 1; ++j)
      load(columns[j], j - g.left);
    for (int begin = 0; begin < g.ow; begin += k) {
#pragma unroll
      for (int u = 0; u < k; ++u) {
        const int at = begin + u;
        if (at < g.ow) {
          load(columns[(u + k - 1) % k], at + k - 1 - g.left);
          const float d =
            has_channel ? __ldg(grad + std::ptrdiff_t{at} * g.co) : 0.0f;
#pragma unroll
          for (int i = 0; i < k; ++i)
#pragma unroll
            for (int j = 0; j < k; ++j)
              sums[i][j] = __fmaf_rn(columns[(u + j) % k][i], d, sums[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < k; ++i)
#pragma unroll
    for (int j = 0; j < k; ++j)
      write_part<warps>(sums[i][j], i * k + j, k * k, channel, g.co, parts);
}

} // namespace

bool has_one_channel_kernel(const conv_geometry& g) {
  constexpr std::int64_t max = std::int64_t{1} << 30;
  return g.ci == 1 && g.kh == g.kw && (g.kh == 3 || g.kh == 5)
         && g.stride_h == 1 && g.stride_w == 1 && g.n > 0
         && static_cast<std::size_t>(g.co) <= max_channels && g.n * g.oh < max
         && g.h * g.w < max && g.ow < max;
}

std::size_t one_channel_scratch(const conv_geometry& g) {
  return blocks_of(g) * static_cast<std::size_t>(g.kh * g.kw * g.co);
}

cudaError_t one_channel_weight_gradient(const conv_geometry& what,
                                        const float* x, const float* gy,
                                        float* scratch, float* gw,
                                        cudaStream_t stream) {
  const extents g{int(what.n * what.oh), int(what.h),   int(what.w),
                  int(what.oh),          int(what.ow),  int(what.co),
                  int(what.top),         int(what.left)};
  const auto count = blocks_of(what);
  const dim3 grid{count, (unsigned(what.co) + lanes - 1) / lanes},
    block{lanes, warps};
  if (what.kh == 3)
    weight_gradient_parts<3><<<grid, block, 0, stream>>>(g, x, gy, scratch);
  else
    weight_gradient_parts<5><<<grid, block, 0, stream>>>(g, x, gy, scratch);
  if (const auto error = cudaGetLastError(); error != cudaSuccess)
    return error;
  return add_parts(
    scratch, count, static_cast<std::size_t>(what.kh * what.kw * what.co),
    [=] __device__(std::size_t i, float sum) { gw[i] = sum; }, stream);
}

} // namespace troupe::cuda
