#include "troupe/tensors/cuda/kernels/pooling.hpp"
#include "troupe/tensors/cuda/kernels/rows.cuh"

namespace troupe::cuda {

namespace {

/// `pool_window` with the integers that kernels compute with.
struct pool_extents {
  explicit pool_extents(const pool_window& w)
    : height{int(w.height)},
      width{int(w.width)},
      channels{int(w.channels)},
      out_height{int(w.out_height)},
      out_width{int(w.out_width)},
      window_height{int(w.window_height)},
      window_width{int(w.window_width)},
      stride_height{int(w.stride_height)},
      stride_width{int(w.stride_width)},
      top{int(w.top)},
      left{int(w.left)} {}

  int height, width, channels, out_height, out_width, window_height,
    window_width, stride_height, stride_width, top, left;
};

/// The maximum of a window, and its position in the window.
template <class Number>
struct maximum {
  Number value{};
  int index = -1; ///< -1: there is none.
};

/// Returns the maximum of a window, for one channel, of `x + bias`.
/// @param row row of the window in the outputs of all images.
/// @param at element of this row.
template <class In>
__host__ __device__ maximum<number_of<In>>
max_of_window(const pool_extents& e, int row, int at, const In* x,
              number_of<In> bias, bool has_bias) {
  const int image = row / e.out_height;
  const int top = row % e.out_height * e.stride_height - e.top;
  const int left = at / e.channels * e.stride_width - e.left;
  const int bottom = top + e.window_height, right = left + e.window_width;
  maximum<number_of<In>> best;
  for (int i = top < 0 ? 0 : top; i < bottom && i < e.height; ++i) {
    const auto line = (std::size_t(image) * e.height + i) * e.width;
    for (int j = left < 0 ? 0 : left; j < right && j < e.width; ++j) {
      auto value = number(x[(line + j) * e.channels + at % e.channels]);
      if (has_bias)
        value += bias;
      const bool is_first_nan = value != value && best.value == best.value;
      if (best.index < 0 || value > best.value || is_first_nan)
        best = {value, (i - top) * e.window_width + j - left};
    }
  }
  return best;
}

template <class In, class Out, bool has_bias>
__global__ void pool(pool_extents e, std::size_t rows, const In* x,
                     const Out* bias, bool relu, Out* out,
                     std::uint8_t* indices) {
  const auto width = std::uint32_t(e.out_width) * e.channels;
  each_in_rows(rows, width, [=](std::size_t row, std::uint32_t at) {
    number_of<In> b{};
    if constexpr (has_bias)
      b = number(bias[at % e.channels]);
    const auto best = max_of_window(e, int(row), int(at), x, b, has_bias);
    const auto to = row * width + at;
    out[to] = element<Out>(relu ? relu_of(best.value) : best.value);
    indices[to] = static_cast<std::uint8_t>(best.index);
  });
}

/// Returns the first window that contains a position, along one axis, counted
/// from the start of the padding.
__host__ __device__ inline int first_window(int position, int size,
                                            int stride) {
  return position < size ? 0 : (position - size) / stride + 1;
}

/// Returns `sum` plus the gradients of the windows whose maximum is this
/// element.
/// @param row row of the element in all images.
/// @param at element of this row.
template <class T>
__host__ __device__ number_of<T>
gradient_of_element(const pool_extents& e, int row, int at, const T* grad_out,
                    const std::uint8_t* indices, number_of<T> sum) {
  const int image = row / e.height, channel = at % e.channels;
  const int y = row % e.height + e.top, x = at / e.channels + e.left;
  const int last_i = y / e.stride_height, last_j = x / e.stride_width;
  const int first_j = first_window(x, e.window_width, e.stride_width);
  for (int i = first_window(y, e.window_height, e.stride_height);
       i <= last_i && i < e.out_height; ++i) {
    const auto line = (std::size_t(image) * e.out_height + i) * e.out_width;
    for (int j = first_j; j <= last_j && j < e.out_width; ++j) {
      const auto from = (line + j) * e.channels + channel;
      const int position =
        (y - i * e.stride_height) * e.window_width + x - j * e.stride_width;
      if (indices[from] == position)
        sum += number(grad_out[from]);
    }
  }
  return sum;
}

template <class T>
__global__ void pool_backward(pool_extents e, std::size_t rows,
                              const T* grad_out, const std::uint8_t* indices,
                              T* grad_x, bool accumulate) {
  const auto width = std::uint32_t(e.width) * e.channels;
  each_in_rows(rows, width, [=](std::size_t row, std::uint32_t at) {
    auto& to = grad_x[row * width + at];
    const auto sum = accumulate ? number(to) : number_of<T>{};
    to = element<T>(
      gradient_of_element(e, int(row), int(at), grad_out, indices, sum));
  });
}

/// True if kernels can compute with `pool_extents`.
bool fits(const pool_window& w) {
  return is_index(w.count * w.height) && is_index(w.count * w.out_height)
         && is_index((w.width + w.left + w.window_width + w.stride_width)
                     * w.channels)
         && is_index(w.out_width * w.channels)
         && is_index(w.height + w.top + w.window_height + w.stride_height);
}

template <class In, class Out, bool has_bias>
cudaError_t start(const pool_window& window, const In* x, const Out* bias,
                  bool relu, Out* out, std::uint8_t* indices,
                  cudaStream_t stream) {
  const auto rows = window.count * window.out_height;
  const auto width = window.out_width * window.channels;
  if (rows == 0 || width == 0)
    return cudaSuccess;
  if (!fits(window))
    return cudaErrorInvalidValue;
  const row_threads threads{rows, width};
  pool<In, Out, has_bias><<<threads.grid, threads.block, 0, stream>>>(
    pool_extents{window}, rows, x, bias, relu, out, indices);
  return cudaGetLastError();
}

} // namespace

cudaError_t max_pool(const pool_window& window, dtype type, const void* x,
                     void* out, std::uint8_t* indices, cudaStream_t stream) {
  return with_float(type, [&]<class T>(T) {
    return start<T, T, false>(window, static_cast<const T*>(x), nullptr, false,
                              static_cast<T*>(out), indices, stream);
  });
}

cudaError_t bias_max_pool(const pool_window& window, dtype type, const float* x,
                          const void* bias, bool relu, void* out,
                          std::uint8_t* indices, cudaStream_t stream) {
  return with_float(type, [&]<class T>(T) {
    if constexpr (sizeof(T) > sizeof(float))
      return cudaErrorInvalidValue;
    else
      return start<float, T, true>(window, x, static_cast<const T*>(bias), relu,
                                   static_cast<T*>(out), indices, stream);
  });
}

cudaError_t max_pool_backward(const pool_window& window, dtype type,
                              const void* grad_out, const std::uint8_t* indices,
                              void* grad_x, bool accumulate,
                              cudaStream_t stream) {
  return with_float(type, [&]<class T>(T) {
    const auto rows = window.count * window.height;
    const auto width = window.width * window.channels;
    if (rows == 0 || width == 0)
      return cudaSuccess;
    if (!fits(window))
      return cudaErrorInvalidValue;
    const row_threads threads{rows, width};
    pool_backward<<<threads.grid, threads.block, 0, stream>>>(
      pool_extents{window}, rows, static_cast<const T*>(grad_out), indices,
      static_cast<T*>(grad_x), accumulate);
    return cudaGetLastError();
  });
}

} // namespace troupe::cuda
