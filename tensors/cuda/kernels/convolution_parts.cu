#include "troupe/tensors/cuda/kernels/convolution_parts.hpp"

#include "troupe/tensors/cuda/kernels/rows.cuh"

namespace troupe::cuda {

namespace {

constexpr unsigned max_blocks = 4096;

unsigned limited(std::size_t blocks) {
  return static_cast<unsigned>(std::min<std::size_t>(blocks, max_blocks));
}

// -- transposition ------------------------------------------------------------

/// A block of `tile_width` x `tile_height` threads transposes one tile of
/// `tile_width` x `tile_width` elements after the other.
constexpr unsigned tile_width = 32, tile_height = 8;

template <class T>
__global__ void transpose_tiles(const T* x, T* out, std::size_t count,
                                std::size_t rows, std::size_t columns) {
  // One more column, so that the elements of a column are in different banks.
  __shared__ T tile[tile_width][tile_width + 1];
  const auto across = (columns + tile_width - 1) / tile_width;
  const auto down = (rows + tile_width - 1) / tile_width;
  for (std::size_t t = blockIdx.x; t < across * down * count; t += gridDim.x) {
    const auto first = t / (across * down) * rows * columns;
    const auto top = t / across % down * tile_width,
               left = t % across * tile_width;
    for (auto i = threadIdx.y; i < tile_width; i += tile_height)
      if (top + i < rows && left + threadIdx.x < columns)
        tile[i][threadIdx.x] =
          x[first + (top + i) * columns + left + threadIdx.x];
    __syncthreads();
    for (auto i = threadIdx.y; i < tile_width; i += tile_height)
      if (left + i < columns && top + threadIdx.x < rows)
        out[first + (left + i) * rows + top + threadIdx.x] =
          tile[threadIdx.x][i];
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

} // namespace

cudaError_t transpose(dtype type, const void* x, void* out, std::size_t count,
                      std::size_t rows, std::size_t columns,
                      cudaStream_t stream) {
  return with_float_or_bfloat16(type, [&]<class T>(T) {
    if (count == 0 || rows == 0 || columns == 0)
      return cudaSuccess;
    const auto tiles = count * ((rows + tile_width - 1) / tile_width)
                       * ((columns + tile_width - 1) / tile_width);
    transpose_tiles<<<limited(tiles), dim3{tile_width, tile_height}, 0,
                      stream>>>(static_cast<const T*>(x), static_cast<T*>(out),
                                count, rows, columns);
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

} // namespace troupe::cuda
