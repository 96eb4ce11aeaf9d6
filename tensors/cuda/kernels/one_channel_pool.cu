#include "troupe/tensors/cuda/kernels/one_channel_pool.hpp"

#include "troupe/tensors/cuda/kernels/part_sums.cuh"
#include "troupe/tensors/cuda/kernels/rows.cuh"

#include <algorithm>

namespace troupe::cuda {

namespace {

/// A warp computes whole rows of windows for 32 output channels, one for each
/// lane. The rows of the image that belong to a row of windows are in shared
/// memory, with zeros for the padding.
constexpr unsigned lanes = 32, warps = 8;
constexpr unsigned max_blocks = 1024; ///< Of a group of 32 channels.
constexpr std::size_t max_line = 240; ///< Floats of a line in shared memory.

struct extents {
  extents(const conv_geometry& conv, const pool_window& pool)
    : rows{int(pool.count * pool.out_height)},
      h{int(conv.h)},
      w{int(conv.w)},
      out_height{int(pool.out_height)},
      out_width{int(pool.out_width)},
      co{int(conv.co)},
      top{int(conv.top)},
      left{int(conv.left)} {}

  int rows; ///< Of windows, in all images.
  int h, w, out_height, out_width, co, top, left;
};

/// Number of columns of an image that belong to a row of windows; even.
template <int k>
__host__ __device__ constexpr std::size_t line_of(std::size_t out_width) {
  return 2 * out_width + k - 1;
}

/// The k + 1 lines of an image that belong to one row of windows.
template <int k>
struct image_lines {
  static constexpr int size = k + 1; ///< Elements of x under a window: size^2.

  /// Loads the lines of a row of windows. All lanes of the warp call it.
  template <class T>
  __device__ void load(const extents& g, const T* x, int row) {
    const int image = row / g.out_height;
    const int first = 2 * (row - image * g.out_height) - g.top;
    const T* const from = x + std::ptrdiff_t{image} * g.h * g.w;
    __syncwarp(); // no lane reads the lines before
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const int r = first + i;
      for (int at = int(threadIdx.x); at < line; at += int{lanes}) {
        const int c = at - g.left;
        const bool is_inside = r >= 0 && r < g.h && c >= 0 && c < g.w;
        floats[i * line + at] = is_inside ? number(from[r * g.w + c]) : 0.0f;
      }
    }
    __syncwarp();
  }

  /// Reads two columns of the lines, from an even one on.
  __device__ void read(float (&a)[size], float (&b)[size], int column) const {
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const auto two =
        *reinterpret_cast<const float2*>(floats + i * line + column);
      a[i] = two.x;
      b[i] = two.y;
    }
  }

  /// Calls `fn(at, patch)` for each window of a row. `patch(i, j)` is the
  /// element in row i and column j of those under the window.
  template <class F>
  __device__ void each_window(int out_width, F fn) const {
    // Column c of the lines is at columns[c % size].
    float columns[size][size];
#pragma unroll
    for (int j = 0; j < k - 1; j += 2)
      read(columns[j], columns[j + 1], j);
    for (int begin = 0; begin < out_width; begin += size / 2) {
#pragma unroll
      for (int u = 0; u < size / 2; ++u) {
        const int at = begin + u;
        if (at < out_width) {
          read(columns[(2 * u + k - 1) % size], columns[(2 * u + k) % size],
               2 * at + k - 1);
          fn(at, [&](int i, int j) { return columns[(2 * u + j) % size][i]; });
        }
      }
    }
  }

  float* floats; ///< In shared memory.
  int line;      ///< Floats of a line.
};

/// Returns the lines of this warp.
template <int k>
__device__ image_lines<k> lines_of_warp(const extents& g) {
  extern __shared__ float2 memory[];
  const int line = int(line_of<k>(g.out_width));
  return {reinterpret_cast<float*>(memory) + threadIdx.y * line * (k + 1),
          line};
}

template <int k, class T>
__global__ void __launch_bounds__(lanes* warps)
  convolve_and_pool(extents g, const T* __restrict__ x, const T* __restrict__ w,
                    const T* __restrict__ bias, bool relu, T* __restrict__ out,
                    std::uint8_t* __restrict__ indices) {
  const int channel = blockIdx.y * lanes + threadIdx.x;
  const bool has_channel = channel < g.co;
  float weights[k][k];
#pragma unroll
  for (int i = 0; i < k; ++i)
#pragma unroll
    for (int j = 0; j < k; ++j)
      weights[i][j] = has_channel ? number(w[(i * k + j) * g.co + channel]) : 0;
  const float b = has_channel ? number(bias[channel]) : 0;
  auto lines = lines_of_warp<k>(g);
  for (int row = blockIdx.x * warps + threadIdx.y; row < g.rows;
       row += gridDim.x * warps) {
    lines.load(g, x, row);
    lines.each_window(g.out_width, [&](int at, auto patch) {
      float sums[4] = {};
#pragma unroll
      for (int i = 0; i < k; ++i)
#pragma unroll
        for (int j = 0; j < k; ++j)
#pragma unroll
          for (int p = 0; p < 4; ++p)
            sums[p] =
              __fmaf_rn(patch(i + p / 2, j + p % 2), weights[i][j], sums[p]);
      float best = sums[0] + b;
      int index = 0;
#pragma unroll
      for (int p = 1; p < 4; ++p) {
        const float value = sums[p] + b;
        if (value > best || (value != value && best == best)) { // the first NaN
          best = value;
          index = p;
        }
      }
      if (!has_channel)
        return;
      const auto to = (std::ptrdiff_t{row} * g.out_width + at) * g.co + channel;
      out[to] = element<T>(relu ? relu_of(best) : best);
      indices[to] = static_cast<std::uint8_t>(index);
    });
  }
}

/// Part b, [k * k + 1, co], is what block b adds: the gradients of the weights,
/// and that of the bias.
template <int k, class T>
__global__ void __launch_bounds__(lanes* warps)
  add_pooled_gradients(extents g, const T* __restrict__ x,
                       const T* __restrict__ grad_out,
                       const T* __restrict__ relu_out,
                       const std::uint8_t* __restrict__ indices,
                       float* __restrict__ parts) {
  const int channel = blockIdx.y * lanes + threadIdx.x;
  const bool has_channel = channel < g.co;
  float sums[k][k] = {}, bias_sum = 0;
  auto lines = lines_of_warp<k>(g);
  for (int row = blockIdx.x * warps + threadIdx.y; row < g.rows;
       row += gridDim.x * warps) {
    const auto first = std::ptrdiff_t{row} * g.out_width * g.co + channel;
    // Those of the next window are loaded while one is computed.
    float gradient = 0, next_gradient = 0;
    int index = 0, next_index = 0;
    const auto load_next = [&](int at) {
      if (at >= g.out_width || !has_channel)
        return;
      const auto from = first + std::ptrdiff_t{at} * g.co;
      next_gradient = number(grad_out[from]);
      next_index = indices[from];
      if (relu_out && !(number(relu_out[from]) > 0))
        next_gradient = 0;
    };
    load_next(0);
    lines.load(g, x, row);
    lines.each_window(g.out_width, [&](int at, auto patch) {
      gradient = next_gradient;
      index = next_index;
      load_next(at + 1);
      bias_sum += gradient;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float d = index == p ? gradient : 0.0f;
#pragma unroll
        for (int i = 0; i < k; ++i)
#pragma unroll
          for (int j = 0; j < k; ++j)
            sums[i][j] = __fmaf_rn(patch(i + p / 2, j + p % 2), d, sums[i][j]);
      }
    });
  }
  constexpr unsigned rows = k * k + 1;
#pragma unroll
  for (int i = 0; i < k; ++i)
#pragma unroll
    for (int j = 0; j < k; ++j)
      write_part<warps>(sums[i][j], i * k + j, rows, channel, g.co, parts);
  write_part<warps>(bias_sum, k * k, rows, channel, g.co, parts);
}

unsigned blocks_of(const pool_window& pool) {
  const auto rows = pool.count * pool.out_height;
  return static_cast<unsigned>(std::clamp<std::size_t>(
    (rows + warps - 1) / warps, 1, std::size_t{max_blocks}));
}

/// Adds the parts of the gradients.
template <class T>
cudaError_t add_gradient_parts(const conv_geometry& conv,
                               const pool_window& pool, const float* parts,
                               T* gw, T* gb, cudaStream_t stream) {
  const auto channels = static_cast<std::size_t>(conv.co);
  const auto weights = static_cast<std::size_t>(conv.kh * conv.kw) * channels;
  return add_parts(
    parts, blocks_of(pool), weights + channels,
    [=] __device__(std::size_t i, float sum) {
      (i < weights ? gw[i] : gb[i - weights]) = element<T>(sum);
    },
    stream);
}

/// Calls `start_kernel(k, grid, block, shared)` with k as a constant.
template <class F>
cudaError_t start(const conv_geometry& conv, const pool_window& pool,
                  F start_kernel) {
  const dim3 grid{blocks_of(pool), (unsigned(conv.co) + lanes - 1) / lanes},
    block{lanes, warps};
  const auto run = [&]<int k>(std::integral_constant<int, k> size) {
    const auto shared =
      warps * (k + 1) * line_of<k>(pool.out_width) * sizeof(float);
    start_kernel(size, grid, block, shared);
  };
  if (conv.kh == 3)
    run(std::integral_constant<int, 3>{});
  else
    run(std::integral_constant<int, 5>{});
  return cudaGetLastError();
}

} // namespace

bool has_one_channel_pool_kernel(const conv_geometry& g,
                                 const pool_window& pool) {
  constexpr std::size_t max = std::size_t{1} << 30;
  return g.ci == 1 && g.kh == g.kw && (g.kh == 3 || g.kh == 5)
         && g.stride_h == 1 && g.stride_w == 1 && g.n > 0
         && pool.window_height == 2 && pool.window_width == 2
         && pool.stride_height == 2 && pool.stride_width == 2 && pool.top == 0
         && pool.left == 0 && pool.out_height > 0 && pool.out_width > 0
         && 2 * pool.out_height <= pool.height
         && 2 * pool.out_width <= pool.width
         && line_of<5>(pool.out_width) <= max_line
         && pool.count * pool.out_height < max
         && static_cast<std::size_t>(g.h) * g.w < max
         && static_cast<std::size_t>(g.co) <= max_channels;
}

cudaError_t one_channel_max_pool(const conv_geometry& conv,
                                 const pool_window& pool, dtype type,
                                 const void* x, const void* w, const void* bias,
                                 bool relu, void* out, std::uint8_t* indices,
                                 cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    return start(conv, pool,
                 [&]<int k>(std::integral_constant<int, k>, dim3 grid,
                            dim3 block, std::size_t shared) {
                   convolve_and_pool<k><<<grid, block, shared, stream>>>(
                     extents{conv, pool}, static_cast<const T*>(x),
                     static_cast<const T*>(w), static_cast<const T*>(bias),
                     relu, static_cast<T*>(out), indices);
                 });
  });
}

std::size_t one_channel_pool_scratch(const conv_geometry& conv,
                                     const pool_window& pool) {
  return blocks_of(pool)
         * static_cast<std::size_t>((conv.kh * conv.kw + 1) * conv.co);
}

cudaError_t one_channel_pool_gradients(
  const conv_geometry& conv, const pool_window& pool, dtype type, const void* x,
  const void* grad_out, const void* relu_out, const std::uint8_t* indices,
  float* scratch, void* gw, void* gb, cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    const auto error =
      start(conv, pool,
            [&]<int k>(std::integral_constant<int, k>, dim3 grid, dim3 block,
                       std::size_t shared) {
              add_pooled_gradients<k><<<grid, block, shared, stream>>>(
                extents{conv, pool}, static_cast<const T*>(x),
                static_cast<const T*>(grad_out),
                static_cast<const T*>(relu_out), indices, scratch);
            });
    if (error != cudaSuccess)
      return error;
    return add_gradient_parts(conv, pool, scratch, static_cast<T*>(gw),
                              static_cast<T*>(gb), stream);
  });
}

} // namespace troupe::cuda
