#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe {
namespace {

/// Returns a window whose number of elements is 0 modulo 2^32 if `width` is a
/// multiple of 2^16.
pool_options too_large(std::int32_t width) {
  return {.window_h = 1 << 16, .window_w = width, .pad = padding::same};
}

TEST(PoolingWindow, IsRejectedIfItsSizeOverflows32Bits) {
  const auto x = tensor::zeros({1, 2, 2, 1});
  for (const auto width : {1 << 16, 1 << 20})
    EXPECT_THROW(max_pool2d(x, too_large(width)), std::logic_error) << width;
}

TEST(PoolingWindow, AfterAConvolutionIsRejectedToo) {
  const auto x = tensor::zeros({1, 2, 2, 1});
  const auto w = tensor::zeros({1, 1, 1, 1}), b = tensor::zeros({1});
  EXPECT_THROW(conv2d_max_pool(x, w, b, {{}, too_large(1 << 16)}),
               std::logic_error);
}

TEST(PoolingWindow, MayHave256Elements) {
  const auto x = tensor::full({1, 2, 2, 1}, 3);
  const auto y =
    max_pool2d(x, {.window_h = 2, .window_w = 128, .pad = padding::same});
  EXPECT_EQ(y.item<float>(), 3);
  EXPECT_THROW(
    max_pool2d(x, {.window_h = 257, .window_w = 1, .pad = padding::same}),
    std::logic_error);
}

} // namespace
} // namespace troupe
