#include "troupe/tensors/base/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

using troupe::pool_window;

const pool_window pooling_windows[] = {
  {2, 6, 8, 5, 3, 4, 2, 2, 2, 2},  // Adjacent 2 x 2 pooling_windows.
  {2, 7, 9, 33, 3, 4, 2, 2, 2, 2}, // No window covers the last row, column.
  {1, 7, 7, 3, 4, 4, 3, 3, 2, 2, 1, 1}, // Padded and overlapping.
  {1, 5, 6, 16, 4, 5, 2, 2, 1, 1},      // Overlapping.
  {1, 3, 3, 1, 3, 3, 2, 2, 1, 1},       // Padded only at bottom and right.
};

struct pooled {
  std::vector<float> x, out, grad_out, grad_x;
  std::vector<std::uint8_t> indices;

  explicit pooled(const pool_window& at)
    : x(at.count * at.height * at.width * at.channels),
      out(at.count * at.out_height * at.out_width * at.channels),
      grad_out(out.size()),
      grad_x(x.size(), 100.0f),
      indices(out.size()) {
    std::mt19937 rng{3};
    for (auto& each : x)
      each = static_cast<float>(rng() % 7) - 3; // Many values are equal.
    for (auto& each : grad_out)
      each = static_cast<float>(rng() % 100);
  }
};

TEST(MaxPool, TheFirstOfEqualMaximaGetsTheGradient) {
  for (const auto& window : pooling_windows) {
    pooled p{window};
    const auto& k = troupe::kernels();
    k.max_pool(window, p.x.data(), p.out.data(), p.indices.data());
    std::vector<float> grad(p.x.size(), 0.0f);
    for (std::size_t o = 0; o < p.out.size(); ++o) {
      const auto c = o % window.channels,
                 j = o / window.channels % window.out_width,
                 i = o / window.channels / window.out_width % window.out_height,
                 image =
                   o / window.channels / window.out_width / window.out_height;
      std::size_t max_index = p.x.size();
      for (std::size_t a = 0; a < window.window_height; ++a)
        for (std::size_t b = 0; b < window.window_width; ++b) {
          const auto row = i * window.stride_height + a - window.top;
          const auto column = j * window.stride_width + b - window.left;
          if (row >= window.height || column >= window.width)
            continue; // Padding: indices before the image wrap to large values.
          const auto here =
            ((image * window.height + row) * window.width + column)
              * window.channels
            + c;
          if (max_index == p.x.size() || p.x[here] > p.x[max_index])
            max_index = here;
        }
      EXPECT_EQ(p.out[o], p.x[max_index]);
      grad[max_index] += p.grad_out[o];
    }
    k.max_pool_backward(window, p.grad_out.data(), p.indices.data(),
                        p.grad_x.data(), false);
    EXPECT_EQ(p.grad_x, grad);
    k.max_pool_backward(window, p.grad_out.data(), p.indices.data(),
                        p.grad_x.data(), true);
    for (auto& each : grad)
      each *= 2;
    EXPECT_EQ(p.grad_x, grad);
  }
}

TEST(MaxPool, PropagatesNanFromAnyElement) {
  for (const auto& window : pooling_windows)
    for (std::size_t i = 0; i < window.window_height * window.window_width;
         ++i) {
      pooled p{window};
      const auto row = i / window.window_width,
                 column = i % window.window_width;
      if (row < window.top || column < window.left)
        continue;
      p.x[((row - window.top) * window.width + column - window.left)
          * window.channels] = std::numeric_limits<float>::quiet_NaN();
      for (const auto& k : troupe::kernel_levels()) {
        k.max_pool(window, p.x.data(), p.out.data(), p.indices.data());
        EXPECT_TRUE(std::isnan(p.out[0])) << k.level << ", place " << i;
        EXPECT_EQ(p.indices[0], i);
      }
    }
}

} // namespace
