#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

/// True for adjacent windows of 2 x 2 that all lie in the image. Then an output
/// pixel depends on four input pixels, and no kernel checks bounds.
static bool is_halving(const pool_window& window) {
  return window.window_height == 2 && window.window_width == 2
         && window.stride_height == 2 && window.stride_width == 2
         && window.top == 0 && window.left == 0
         && window.out_height * 2 <= window.height
         && window.out_width * 2 <= window.width;
}

static void max_of_4(const float* __restrict a, std::size_t right,
                     std::size_t below, std::size_t channels,
                     float* __restrict out, std::uint8_t* __restrict indices) {
  for (std::size_t c = 0; c < channels; ++c) {
    const float x[] = {a[c], a[c + right], a[c + below], a[c + right + below]};
    float best = x[0];
    std::int32_t index = 0;
    for (std::int32_t p = 1; p < 4; ++p) {
      const bool better = (x[p] > best) | (x[p] != x[p]);
      best = better ? x[p] : best;
      index = better ? p : index;
    }
    out[c] = best;
    indices[c] = static_cast<std::uint8_t>(index);
  }
}

namespace {
/// Calls `visit(pixel, p)` for each position p of a window of any size, except
/// for padding. (row, column) is the output pixel; `pixel` is the index of the
/// input pixel in its image.
template <class F>
inline void in_window(const pool_window& window, std::size_t row,
                      std::size_t column, F visit) {
  for (std::size_t p = 0, i = 0; i < window.window_height; ++i)
    for (std::size_t j = 0; j < window.window_width; ++j, ++p) {
      const auto y = row * window.stride_height + i;
      const auto x = column * window.stride_width + j;
      if (y >= window.top && x >= window.left && y - window.top < window.height
          && x - window.left < window.width)
        visit((y - window.top) * window.width + x - window.left, p);
    }
}
} // namespace

static void max_of_window(const pool_window& window, std::size_t row,
                          std::size_t column, const float* image, float* out,
                          std::uint8_t* indices) {
  bool first = true;
  in_window(window, row, column, [&](std::size_t pixel, std::size_t p) {
    const auto* x = image + pixel * window.channels;
    for (std::size_t c = 0; c < window.channels; ++c)
      if (first || x[c] > out[c] || x[c] != x[c]) {
        out[c] = x[c];
        indices[c] = static_cast<std::uint8_t>(p);
      }
    first = false;
  });
}

static void max_pool(const pool_window& window, const float* x, float* out,
                     std::uint8_t* indices) {
  const auto halving = is_halving(window);
  const auto below = window.width * window.channels;
  for (std::size_t image = 0; image < window.count; ++image) {
    for (std::size_t i = 0; i < window.out_height; ++i)
      for (std::size_t j = 0; j < window.out_width; ++j) {
        if (halving)
          max_of_4(x + 2 * (i * below + j * window.channels), window.channels,
                   below, window.channels, out, indices);
        else
          max_of_window(window, i, j, x, out, indices);
        out += window.channels;
        indices += window.channels;
      }
    x += window.height * below;
  }
}

/// Distributes the gradient `g` of a 2 x 2 window to its four pixels. `right`
/// and `below` are the distances in `grad_x` from a pixel to its right and
/// lower neighbor. Widens the indices to 32 bits, block by block. Thus a vector
/// of indices has as many lanes as a vector of floats, at every instruction-set
/// level.
static void spread_to_4(const float* __restrict g,
                        const std::uint8_t* __restrict indices,
                        std::size_t right, std::size_t below,
                        std::size_t channels, float* __restrict grad_x,
                        bool accumulate) {
  constexpr std::size_t block = 64;
  for (std::size_t c0 = 0; c0 < channels; c0 += block) {
    const auto n = channels - c0 < block ? channels - c0 : block;
    float wide[block]; // Contains integers, because `load` takes floats.
    for (std::size_t c = 0; c < n; ++c)
      reinterpret_cast<aliased_int*>(wide)[c] = indices[c0 + c];
    for (std::int32_t p = 0; p < 4; ++p) {
      auto* d = grad_x + c0 + (p & 1) * right + (p >> 1) * below;
      in_vectors(n, [=, &wide](std::size_t c, auto k) {
        const auto at = (ints)load(wide + c, k);
        const auto masked_g = at == p ? load(g + c0 + c, k) : vec{};
        store(d + c, accumulate ? load(d + c, k) + masked_g : masked_g, k);
      });
    }
  }
}

static void spread_to_any(const pool_window& window, std::size_t row,
                          std::size_t column, const float* g,
                          const std::uint8_t* indices, float* image) {
  in_window(window, row, column, [&](std::size_t pixel, std::size_t p) {
    auto* d = image + pixel * window.channels;
    for (std::size_t c = 0; c < window.channels; ++c)
      d[c] += indices[c] == p ? g[c] : 0;
  });
}

static void max_pool_backward(const pool_window& window, const float* grad_out,
                              const std::uint8_t* indices, float* grad_x,
                              bool accumulate) {
  const auto below = window.width * window.channels;
  const auto halving = is_halving(window);
  const auto covered = halving && window.out_height * 2 == window.height
                       && window.out_width * 2 == window.width;
  if (!accumulate && !covered)
    for (std::size_t i = 0; i < window.count * window.height * below; ++i)
      grad_x[i] = 0;
  for (std::size_t image = 0; image < window.count; ++image) {
    for (std::size_t i = 0; i < window.out_height; ++i)
      for (std::size_t j = 0; j < window.out_width; ++j) {
        if (halving)
          spread_to_4(
            grad_out, indices, window.channels, below, window.channels,
            grad_x + 2 * (i * below + j * window.channels), accumulate);
        else
          spread_to_any(window, i, j, grad_out, indices, grad_x);
        grad_out += window.channels;
        indices += window.channels;
      }
    grad_x += window.height * below;
  }
}

extern const pooling_kernels pooling;
const pooling_kernels pooling = {max_pool, max_pool_backward};

} // namespace troupe::TROUPE_LEVEL
