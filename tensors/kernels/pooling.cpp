#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

/// True for adjacent windows of 2 x 2 without padding. Then one output row of
/// channels depends on four input rows, and no bounds are checked.
static bool is_halving(const pool_window& at) {
  return at.window_height == 2 && at.window_width == 2 && at.stride_height == 2
         && at.stride_width == 2 && at.top == 0 && at.left == 0
         && at.out_height * 2 <= at.height && at.out_width * 2 <= at.width;
}

static void largest_of_4(const float* __restrict a, std::size_t right,
                         std::size_t below, std::size_t channels,
                         float* __restrict out,
                         std::uint8_t* __restrict places) {
  for (std::size_t c = 0; c < channels; ++c) {
    const float x[] = {a[c], a[c + right], a[c + below], a[c + right + below]};
    float best = x[0];
    std::int32_t place = 0;
    for (std::int32_t p = 1; p < 4; ++p) {
      const bool better = (x[p] > best) | (x[p] != x[p]);
      best = better ? x[p] : best;
      place = better ? p : place;
    }
    out[c] = best;
    places[c] = static_cast<std::uint8_t>(place);
  }
}

/// Calls `visit(pixel, p)` for each position p of the window at (row, column)
/// that is not padding, for a window of any size.
namespace {
template <class F>
inline void in_window(const pool_window& at, std::size_t row,
                      std::size_t column, F visit) {
  for (std::size_t p = 0, i = 0; i < at.window_height; ++i)
    for (std::size_t j = 0; j < at.window_width; ++j, ++p) {
      const auto y = row * at.stride_height + i;
      const auto x = column * at.stride_width + j;
      if (y >= at.top && x >= at.left && y - at.top < at.height
          && x - at.left < at.width)
        visit((y - at.top) * at.width + x - at.left, p);
    }
}
} // namespace

static void largest_of_any(const pool_window& at, std::size_t row,
                           std::size_t column, const float* image, float* out,
                           std::uint8_t* places) {
  bool first = true;
  in_window(at, row, column, [&](std::size_t pixel, std::size_t p) {
    const auto* x = image + pixel * at.channels;
    for (std::size_t c = 0; c < at.channels; ++c)
      if (first || x[c] > out[c] || x[c] != x[c]) {
        out[c] = x[c];
        places[c] = static_cast<std::uint8_t>(p);
      }
    first = false;
  });
}

static void max_pool(const pool_window& at, const float* x, float* out,
                     std::uint8_t* places) {
  const auto halving = is_halving(at);
  const auto below = at.width * at.channels;
  for (std::size_t image = 0; image < at.count; ++image) {
    for (std::size_t i = 0; i < at.out_height; ++i)
      for (std::size_t j = 0; j < at.out_width; ++j) {
        if (halving)
          largest_of_4(x + 2 * (i * below + j * at.channels), at.channels,
                       below, at.channels, out, places);
        else
          largest_of_any(at, i, j, x, out, places);
        out += at.channels;
        places += at.channels;
      }
    x += at.height * below;
  }
}

/// Works in blocks, with the indices as wide as the floats, so that the
/// baseline instructions suffice.
static void spread_to_4(const float* __restrict g,
                        const std::uint8_t* __restrict places,
                        std::size_t right, std::size_t below,
                        std::size_t channels, float* __restrict to,
                        bool accumulate) {
  constexpr std::size_t block = 64;
  for (std::size_t c0 = 0; c0 < channels; c0 += block) {
    const auto n = channels - c0 < block ? channels - c0 : block;
    float wide[block]; // Integers, moved as floats.
    for (std::size_t c = 0; c < n; ++c)
      reinterpret_cast<loose_int*>(wide)[c] = places[c0 + c];
    for (std::int32_t p = 0; p < 4; ++p) {
      auto* d = to + c0 + (p & 1) * right + (p >> 1) * below;
      in_vectors(n, [=, &wide](std::size_t c, auto k) {
        const auto at = (ints)load(wide + c, k);
        const auto part_of_g = at == p ? load(g + c0 + c, k) : vec{};
        store(d + c, accumulate ? load(d + c, k) + part_of_g : part_of_g, k);
      });
    }
  }
}

static void spread_to_any(const pool_window& at, std::size_t row,
                          std::size_t column, const float* g,
                          const std::uint8_t* places, float* image) {
  in_window(at, row, column, [&](std::size_t pixel, std::size_t p) {
    auto* d = image + pixel * at.channels;
    for (std::size_t c = 0; c < at.channels; ++c)
      d[c] += places[c] == p ? g[c] : 0;
  });
}

static void max_pool_backward(const pool_window& at, const float* grad_out,
                              const std::uint8_t* places, float* grad_x,
                              bool accumulate) {
  const auto below = at.width * at.channels;
  const auto halving = is_halving(at);
  const auto covered =
    halving && at.out_height * 2 == at.height && at.out_width * 2 == at.width;
  if (!accumulate && !covered)
    for (std::size_t i = 0; i < at.count * at.height * below; ++i)
      grad_x[i] = 0;
  for (std::size_t image = 0; image < at.count; ++image) {
    for (std::size_t i = 0; i < at.out_height; ++i)
      for (std::size_t j = 0; j < at.out_width; ++j) {
        if (halving)
          spread_to_4(grad_out, places, at.channels, below, at.channels,
                      grad_x + 2 * (i * below + j * at.channels), accumulate);
        else
          spread_to_any(at, i, j, grad_out, places, grad_x);
        grad_out += at.channels;
        places += at.channels;
      }
    grad_x += at.height * below;
  }
}

extern const pooling_kernels pooling;
const pooling_kernels pooling = {max_pool, max_pool_backward};

} // namespace troupe::TROUPE_LEVEL
