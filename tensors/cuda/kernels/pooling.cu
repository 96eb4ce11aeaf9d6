#include "troupe/tensors/cuda/kernels/pooling.hpp"

#include "troupe/tensors/cuda/kernels/rows.cuh"

#include <type_traits>

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

// A thread computes `lanes` neighboring channels: 4 with one access of memory
// each if the number of channels and the addresses allow it, or 1.

/// The maximum of a window in each channel, and its position in the window.
template <class Number, int lanes>
struct maxima {
  Number value[lanes];
  int index[lanes];
};

/// Returns the maxima of `x + bias` in a window.
/// @param row row of the window in the outputs of all images.
/// @param column of the window.
/// @param channel the first one.
template <int lanes, class In>
__device__ maxima<number_of<In>, lanes>
max_of_window(const pool_extents& e, int row, int column, int channel,
              const In* x, const number_of<In> (&bias)[lanes], bool has_bias) {
  const int image = row / e.out_height;
  const int top = (row - image * e.out_height) * e.stride_height - e.top;
  const int left = column * e.stride_width - e.left;
  const int bottom = min(top + e.window_height, e.height),
            right = min(left + e.window_width, e.width);
  maxima<number_of<In>, lanes> best;
  for (auto& index : best.index)
    index = -1;
  for (int i = max(top, 0); i < bottom; ++i) {
    const auto line = (std::size_t(image) * e.height + i) * e.width;
    for (int j = max(left, 0); j < right; ++j) {
      const auto& from = pack_at<lanes>(x, (line + j) * e.channels + channel);
      const int index = (i - top) * e.window_width + j - left;
      for (int k = 0; k < lanes; ++k) {
        auto value = number(from.lane[k]);
        if (has_bias)
          value += bias[k];
        auto& known = best.value[k];
        if (best.index[k] < 0 || value > known
            || (value != value && known == known)) { // the first NaN
          known = value;
          best.index[k] = index;
        }
      }
    }
  }
  return best;
}

template <int lanes, class In, class Out, bool has_bias>
__global__ void pool(pool_extents e, std::size_t rows, const In* x,
                     const Out* bias, bool relu, Out* out,
                     std::uint8_t* indices) {
  const auto packs = std::uint32_t(e.channels) / lanes;
  each_in_rows(
    rows, e.out_width * packs, [=](std::size_t row, std::uint32_t at) {
      const auto column = at / packs;
      const auto channel = (at - column * packs) * lanes;
      number_of<In> b[lanes] = {};
      if constexpr (has_bias)
        for (int k = 0; k < lanes; ++k)
          b[k] = number(bias[channel + k]);
      const auto best =
        max_of_window(e, int(row), int(column), int(channel), x, b, has_bias);
      const auto to = row * e.out_width * e.channels + at * lanes;
      pack<Out, lanes> values;
      pack<std::uint8_t, lanes> positions;
      for (int k = 0; k < lanes; ++k) {
        const auto value = best.value[k];
        values.lane[k] = element<Out>(relu ? relu_of(value) : value);
        positions.lane[k] = static_cast<std::uint8_t>(best.index[k]);
      }
      pack_at<lanes>(out, to) = values;
      pack_at<lanes>(indices, to) = positions;
    });
}

/// Returns the first window that contains a position, along one axis, counted
/// from the start of the padding.
__device__ inline int first_window(int position, int size, int stride) {
  return position < size ? 0 : (position - size) / stride + 1;
}

/// Adds the gradients of the windows whose maximum is an element.
/// @param row row of the element in all images.
template <int lanes, class T>
__device__ void add_gradients(const pool_extents& e, int row, int column,
                              int channel, const T* grad_out,
                              const std::uint8_t* indices,
                              number_of<T> (&sum)[lanes]) {
  const int image = row / e.height;
  const int y = row - image * e.height + e.top, x = column + e.left;
  const int last_i = min(y / e.stride_height, e.out_height - 1),
            last_j = min(x / e.stride_width, e.out_width - 1);
  const int first_j = first_window(x, e.window_width, e.stride_width);
  for (int i = first_window(y, e.window_height, e.stride_height); i <= last_i;
       ++i) {
    const auto line = (std::size_t(image) * e.out_height + i) * e.out_width;
    for (int j = first_j; j <= last_j; ++j) {
      const auto from = (line + j) * e.channels + channel;
      const int position =
        (y - i * e.stride_height) * e.window_width + x - j * e.stride_width;
      const auto at = pack_at<lanes>(indices, from);
      const auto gradient = pack_at<lanes>(grad_out, from);
      for (int k = 0; k < lanes; ++k)
        if (at.lane[k] == position)
          sum[k] = sum_of(sum[k], number(gradient.lane[k]));
    }
  }
}

template <int lanes, class T>
__global__ void pool_backward(pool_extents e, std::size_t rows,
                              const T* grad_out, const std::uint8_t* indices,
                              T* grad_x, bool accumulate) {
  const auto packs = std::uint32_t(e.channels) / lanes;
  each_in_rows(rows, e.width * packs, [=](std::size_t row, std::uint32_t at) {
    const auto column = at / packs;
    const auto channel = (at - column * packs) * lanes;
    auto& to = pack_at<lanes>(grad_x, row * e.width * e.channels + at * lanes);
    number_of<T> sum[lanes] = {};
    if (accumulate)
      for (int k = 0; k < lanes; ++k)
        sum[k] = number(to.lane[k]);
    add_gradients(e, int(row), int(column), int(channel), grad_out, indices,
                  sum);
    pack<T, lanes> result;
    for (int k = 0; k < lanes; ++k)
      result.lane[k] = element<T>(sum[k]);
    to = result;
  });
}

/// As `pool_backward`, for windows that cover the images exactly once. A thread
/// writes all elements of a window.
template <int lanes, class T>
__global__ void spread(pool_extents e, std::size_t rows, const T* grad_out,
                       const std::uint8_t* indices, T* grad_x,
                       bool accumulate) {
  const auto packs = std::uint32_t(e.channels) / lanes;
  each_in_rows(
    rows, e.out_width * packs, [=](std::size_t row, std::uint32_t at) {
      const auto column = at / packs;
      const auto channel = (at - column * packs) * lanes;
      const auto from = row * e.out_width * e.channels + at * lanes;
      const auto gradient = pack_at<lanes>(grad_out, from);
      const auto maximum = pack_at<lanes>(indices, from);
      int position = 0;
      for (int i = 0; i < e.window_height; ++i) {
        const auto line = (row * e.window_height + i) * e.width;
        for (int j = 0; j < e.window_width; ++j, ++position) {
          auto& to = pack_at<lanes>(
            grad_x,
            (line + column * e.window_width + j) * e.channels + channel);
          pack<T, lanes> result;
          for (int k = 0; k < lanes; ++k) {
            auto value = accumulate ? number(to.lane[k]) : number_of<T>{};
            if (maximum.lane[k] == position)
              value = sum_of(value, number(gradient.lane[k]));
            result.lane[k] = element<T>(value);
          }
          to = result;
        }
      }
    });
}

/// True if each element of the images is in exactly one window.
bool is_partition(const pool_window& w) {
  return w.window_height == w.stride_height && w.window_width == w.stride_width
         && w.top == 0 && w.left == 0
         && w.height == w.out_height * w.window_height
         && w.width == w.out_width * w.window_width;
}

/// True if threads can access 4 channels at once.
template <class... T>
bool can_pack(std::size_t channels, const T*... elements) {
  return channels % 4 == 0 && are_aligned<4>(elements...);
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
  const auto run = [&]<int lanes>(std::integral_constant<int, lanes>) {
    const row_threads threads{rows, width / lanes};
    pool<lanes, In, Out, has_bias><<<threads.grid, threads.block, 0, stream>>>(
      pool_extents{window}, rows, x, bias, relu, out, indices);
  };
  if (can_pack(window.channels, x, out, indices))
    run(std::integral_constant<int, 4>{});
  else
    run(std::integral_constant<int, 1>{});
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
    const auto* const from = static_cast<const T*>(grad_out);
    auto* const to = static_cast<T*>(grad_x);
    const auto run = [&]<int lanes>(std::integral_constant<int, lanes>) {
      if (is_partition(window)) {
        const auto windows = window.count * window.out_height;
        const row_threads threads{windows,
                                  window.out_width * window.channels / lanes};
        spread<lanes><<<threads.grid, threads.block, 0, stream>>>(
          pool_extents{window}, windows, from, indices, to, accumulate);
        return;
      }
      const row_threads threads{rows, width / lanes};
      pool_backward<lanes><<<threads.grid, threads.block, 0, stream>>>(
        pool_extents{window}, rows, from, indices, to, accumulate);
    };
    if (can_pack(window.channels, from, to, indices))
      run(std::integral_constant<int, 4>{});
    else
      run(std::integral_constant<int, 1>{});
    return cudaGetLastError();
  });
}

} // namespace troupe::cuda
