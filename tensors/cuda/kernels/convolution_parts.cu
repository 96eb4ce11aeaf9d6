#include "troupe/tensors/cuda/kernels/convolution_parts.hpp"
#include "troupe/tensors/cuda/kernels/rows.cuh"

namespace troupe::cuda {

namespace {

template <class F>
cudaError_t with_float_or_bfloat16(dtype type, F fn) {
  if (type == dtype::float32)
    return fn(float{});
  if (type == dtype::bfloat16)
    return fn(__nv_bfloat16{});
  return cudaErrorInvalidValue;
}

constexpr unsigned max_blocks = 4096;

unsigned limited(std::size_t blocks) {
  return static_cast<unsigned>(std::min<std::size_t>(blocks, max_blocks));
}

// -- transposition ------------------------------------------------------------

/// A block of `tile_width` x `tile_height` threads transposes one tile of
/// `tile_width` x `tile_width` elements after the other.
constexpr unsigned tile_width = 32, tile_height = 8;

template <class T>
__global__ void transpose_tiles(const T* x, T* out, std::size_t rows,
                                std::size_t columns) {
  // One more column, so that the elements of a column are in different banks.
  __shared__ T tile[tile_width][tile_width + 1];
  const auto across = (columns + tile_width - 1) / tile_width;
  const auto down = (rows + tile_width - 1) / tile_width;
  for (std::size_t t = blockIdx.x; t < across * down; t += gridDim.x) {
    const auto top = t / across * tile_width, left = t % across * tile_width;
    for (auto i = threadIdx.y; i < tile_width; i += tile_height)
      if (top + i < rows && left + threadIdx.x < columns)
        tile[i][threadIdx.x] = x[(top + i) * columns + left + threadIdx.x];
    __syncthreads();
    for (auto i = threadIdx.y; i < tile_width; i += tile_height)
      if (left + i < columns && top + threadIdx.x < rows)
        out[(left + i) * rows + top + threadIdx.x] = tile[threadIdx.x][i];
    __syncthreads();
  }
}

// -- images -------------------------------------------------------------------

/// @param width number of elements of a row.
template <class T>
__global__ void fit_rows(const T* x, std::uint32_t height, std::uint32_t width,
                         T* out, std::uint32_t out_height,
                         std::uint32_t out_width, std::size_t rows) {
  each_in_rows(rows, out_width, [=](std::size_t row, std::uint32_t at) {
    const auto image = std::uint32_t(row) / out_height,
               i = std::uint32_t(row) % out_height;
    const auto from = (std::size_t{image} * height + i) * width + at;
    const bool is_inside = i < height && at < width;
    out[row * out_width + at] = is_inside ? x[from] : element<T>(0.0f);
  });
}

// -- bias ---------------------------------------------------------------------

template <class T>
__global__ void add_bias(const float* x, const T* bias, bool relu, T* y,
                         std::size_t pixels, std::uint32_t channels) {
  each_in_rows(pixels, channels, [=](std::size_t row, std::uint32_t channel) {
    const auto at = row * channels + channel;
    const auto sum = x[at] + number(bias[channel]);
    y[at] = element<T>(relu ? relu_of(sum) : sum);
  });
}

// -- gradient of the bias -----------------------------------------------------

template <class T>
__host__ __device__ T masked(T g, T y) {
  return number(y) > 0 ? g : element<T>(0.0f);
}

template <class T>
__global__ void mask(T* g, const T* y, std::size_t n) {
  const auto step = std::size_t{gridDim.x} * blockDim.x;
  for (auto i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += step)
    g[i] = masked(g[i], y[i]);
}

constexpr unsigned block_rows = 128;

/// Returns the sum of one column in `rows` rows of n elements.
/// @param y Not null: masks the elements of g.
template <class T, bool has_mask>
__host__ __device__ float sum_of_rows(T* g, const T* y, unsigned rows,
                                      std::size_t n) {
  // Several elements are loaded before the first is added or written, so that
  // the loads overlap.
  constexpr unsigned batch = 8;
  float sum = 0;
  unsigned row = 0;
  for (; row + batch <= rows; row += batch) {
    T values[batch];
#pragma unroll
    for (unsigned i = 0; i < batch; ++i)
      values[i] = g[(row + i) * n];
    if constexpr (has_mask) {
#pragma unroll
      for (unsigned i = 0; i < batch; ++i)
        values[i] = masked(values[i], y[(row + i) * n]);
#pragma unroll
      for (unsigned i = 0; i < batch; ++i)
        g[(row + i) * n] = values[i];
    }
#pragma unroll
    for (unsigned i = 0; i < batch; ++i)
      sum += number(values[i]);
  }
  for (; row < rows; ++row) {
    auto value = g[row * n];
    if constexpr (has_mask)
      g[row * n] = value = masked(value, y[row * n]);
    sum += number(value);
  }
  return sum;
}

/// block_sums[i, n] = column sums of the rows of block i.
template <class T, bool has_mask>
__global__ void sum_blocks(T* g, const T* y, std::size_t m, std::uint32_t n,
                           std::size_t blocks, float* block_sums) {
  each_in_rows(blocks, n, [=](std::size_t block, std::uint32_t column) {
    const auto top = block * block_rows;
    const auto rows = m - top < block_rows ? unsigned(m - top) : block_rows;
    const auto first = top * n + column;
    block_sums[block * n + column] = sum_of_rows<T, has_mask>(
      g + first, has_mask ? y + first : nullptr, rows, n);
  });
}

/// Returns `sum` plus the sums of one column of all blocks, in order.
__host__ __device__ inline float add_block_sums(float sum,
                                                const float* block_sums,
                                                std::size_t blocks,
                                                std::size_t n) {
  constexpr unsigned batch = 32;
  std::size_t block = 0;
  for (; block + batch <= blocks; block += batch) {
    float values[batch];
#pragma unroll
    for (unsigned i = 0; i < batch; ++i)
      values[i] = block_sums[(block + i) * n];
#pragma unroll
    for (unsigned i = 0; i < batch; ++i)
      sum += values[i];
  }
  for (; block < blocks; ++block)
    sum += block_sums[block * n];
  return sum;
}

template <class T>
__global__ void sum_all_blocks(const float* block_sums, std::size_t blocks,
                               std::size_t n, T* sums, bool accumulate) {
  const auto step = std::size_t{gridDim.x} * blockDim.x;
  for (auto column = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
       column < n; column += step) {
    const auto first = accumulate ? number(sums[column]) : 0.0f;
    sums[column] =
      element<T>(add_block_sums(first, block_sums + column, blocks, n));
  }
}

std::size_t blocks_of(std::size_t pixels) {
  return (pixels + block_rows - 1) / block_rows;
}

} // namespace

cudaError_t transpose(dtype type, const void* x, void* out, std::size_t rows,
                      std::size_t columns, cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    if (rows == 0 || columns == 0)
      return cudaSuccess;
    const auto tiles = ((rows + tile_width - 1) / tile_width)
                       * ((columns + tile_width - 1) / tile_width);
    transpose_tiles<<<limited(tiles), dim3{tile_width, tile_height}, 0,
                      stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                rows, columns);
    return cudaGetLastError();
  });
}

cudaError_t fit_images(dtype type, const void* x, image_extents from, void* out,
                       image_extents to, std::size_t n, std::size_t channels,
                       cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    const auto rows = n * to.height, width = to.width * channels;
    if (rows == 0 || width == 0)
      return cudaSuccess;
    if (!is_index(rows) || !is_index(width) || !is_index(from.height)
        || !is_index(from.width * channels))
      return cudaErrorInvalidValue;
    const row_threads threads{rows, width};
    fit_rows<<<threads.grid, threads.block, 0, stream>>>(
      static_cast<const T*>(x), std::uint32_t(from.height),
      std::uint32_t(from.width * channels), static_cast<T*>(out),
      std::uint32_t(to.height), std::uint32_t(width), rows);
    return cudaGetLastError();
  });
}

cudaError_t add_channel_bias(dtype type, const float* x, const void* bias,
                             bool relu, void* y, std::size_t pixels,
                             std::size_t channels, cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    if (pixels == 0 || channels == 0)
      return cudaSuccess;
    if (!is_index(channels))
      return cudaErrorInvalidValue;
    const row_threads threads{pixels, channels};
    add_bias<<<threads.grid, threads.block, 0, stream>>>(
      x, static_cast<const T*>(bias), relu, static_cast<T*>(y), pixels,
      std::uint32_t(channels));
    return cudaGetLastError();
  });
}

cudaError_t mask_by_relu(dtype type, void* g, const void* y, std::size_t n,
                         cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    if (n == 0)
      return cudaSuccess;
    mask<<<limited((n + 255) / 256), 256, 0, stream>>>(
      static_cast<T*>(g), static_cast<const T*>(y), n);
    return cudaGetLastError();
  });
}

std::size_t channel_sums_workspace(std::size_t pixels, std::size_t channels) {
  return blocks_of(pixels) * channels;
}

cudaError_t sum_channels(dtype type, void* g, const void* y, std::size_t pixels,
                         std::size_t channels, float* workspace, void* sums,
                         bool accumulate, cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    if (channels == 0)
      return cudaSuccess;
    if (!is_index(channels))
      return cudaErrorInvalidValue;
    const auto blocks = blocks_of(pixels);
    if (blocks > 0) {
      const row_threads threads{blocks, channels};
      const auto kernel = y ? sum_blocks<T, true> : sum_blocks<T, false>;
      kernel<<<threads.grid, threads.block, 0, stream>>>(
        static_cast<T*>(g), static_cast<const T*>(y), pixels,
        std::uint32_t(channels), blocks, workspace);
      if (const auto result = cudaGetLastError(); result != cudaSuccess)
        return result;
    }
    sum_all_blocks<<<limited((channels + 31) / 32), 32, 0, stream>>>(
      workspace, blocks, channels, static_cast<T*>(sums), accumulate);
    return cudaGetLastError();
  });
}

} // namespace troupe::cuda
