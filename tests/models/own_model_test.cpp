// [doc:begin own_model]
#include "troupe/models/layers.hpp"
#include "troupe/models/network.hpp"

#include <iostream>

namespace {

using namespace troupe;

models::model_description small() {
  using models::stack;
  return {.name = "small",
          .input = {28, 28, 1},
          .layers = stack(models::conv2d{16, 3}, models::max_pool2d{2},
                          models::flatten{}, models::dense{10})};
}

tensor scores_of(const tensor& images) { // [n, 28, 28, 1]
  const models::network net{small()};
  parameters own{net.parameters()};
  net.initialize(own, /*seed*/ 1);
  std::cout << models::summary(net);
  return net.forward(images, own.variables()); // [n, 10]
}

} // namespace
// [doc:end]

#include <gtest/gtest.h>

namespace {

TEST(OwnModel, ReturnsTenScoresForEachImage) {
  ::testing::internal::CaptureStdout();
  const auto scores = scores_of(tensor::zeros({3, 28, 28, 1}));
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("27,210"),
            std::string::npos); // 3 * 3 * 16 + 16 + 13 * 13 * 16 * 10 + 10
  EXPECT_TRUE(same_bits(scores, tensor::zeros({3, 10})));
}

} // namespace
