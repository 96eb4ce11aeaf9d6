#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tests/tensors/special_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

using troupe::test::nan;

bool has_nan(const tensor& x) {
  for (const float v : x.data<float>())
    if (std::isnan(v))
      return true;
  return false;
}

// A layer with relu keeps NaN. If relu turned NaN into 0, a failed training
// would have a valid loss.
TEST(NaN, PassesThroughDenseWithRelu) {
  for (const std::int64_t rows : {1, 3}) {
    auto x = tensor::full({rows, 8}, 1);
    x.mutable_data<float>()[0] = nan;
    const auto y =
      dense(x, tensor::full({8, 5}, -1), tensor::zeros({5}), activation::relu);
    EXPECT_TRUE(has_nan(y)) << rows << " rows";
  }
}

TEST(NaN, PassesThroughConvolutionReluAndPooling) {
  auto x = tensor::full({2, 6, 6, 3}, 1);
  x.mutable_data<float>()[0] = nan;
  const auto y = conv2d(x, tensor::full({3, 3, 3, 16}, -1), tensor::zeros({16}),
                        {.pad = padding::same, .f = activation::relu});
  EXPECT_TRUE(has_nan(y));
  EXPECT_TRUE(has_nan(max_pool2d(y)));
  EXPECT_TRUE(has_nan(relu(y)));
}

} // namespace
} // namespace troupe
