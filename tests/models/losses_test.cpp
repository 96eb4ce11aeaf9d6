#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace troupe::models {
namespace {

TEST(Losses, OfEqualLogitsAreTheLogarithmOfTheNumberOfClasses) {
  const auto losses = cross_entropy(tensor::full({3, 10}, 5),
                                    tensor::of<std::int32_t>({3}, {0, 4, 9}));
  ASSERT_EQ(losses.dims(), (shape{3}));
  for (const auto one : losses.data<float>())
    EXPECT_NEAR(one, std::log(10.0), 1e-6);
}

TEST(Losses, OfSquaresAreMeansOverAnExamplesOutputs) {
  const auto outputs = tensor::of<float>({2, 2, 2}, {1, 2, 3, 4, 0, 0, 0, 0});
  const auto targets = tensor::of<float>({2, 2, 2}, {1, 0, 3, 0, 2, 2, -2, 2});
  EXPECT_TRUE(same_bits(mean_squared_error(outputs, targets),
                        tensor::of<float>({2}, {5, 4})));
  EXPECT_THROW(mean_squared_error(outputs, tensor::zeros({2, 4})),
               std::logic_error);
}

TEST(Losses, OfBinaryLabelsAreMeansOverAnExamplesOutputs) {
  const auto ln2 = std::log(2.0);
  const auto of_zeros = binary_cross_entropy(
    tensor::zeros({2, 3}), tensor::of<float>({2, 3}, {0, 1, 1, 0, 0, 0.5f}));
  ASSERT_EQ(of_zeros.dims(), (shape{2}));
  for (const auto one : of_zeros.data<float>())
    EXPECT_NEAR(one, ln2, 1e-7);
  // Labels of any dtype, for a network with one output.
  const auto sure =
    binary_cross_entropy(tensor::of<float>({4, 1}, {120, 120, -120, -120}),
                         tensor::of<std::int32_t>({4}, {1, 0, 1, 0}));
  EXPECT_TRUE(same_bits(sure, tensor::of<float>({4}, {0, 120, 120, 0})));
  EXPECT_THROW(binary_cross_entropy(tensor::zeros({2, 3}), tensor::zeros({2})),
               std::logic_error);
}

TEST(Losses, AreFoundByName) {
  EXPECT_EQ(find_loss("softmax_cross_entropy").targets, target_kind::classes);
  EXPECT_EQ(find_loss("mean_squared_error").targets, target_kind::values);
  try {
    find_loss("cross_entropy_softmax");
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()},
              "there is no loss \"cross_entropy_softmax\"; give one of "
              "softmax_cross_entropy, mean_squared_error, "
              "mean_absolute_error, binary_cross_entropy");
  }
}

TEST(Metrics, CountTheFirstOfEqualScoresAndNoRowWithNaN) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto scores = tensor::of<float>({5, 3}, {1, 2, 2,   //
                                                 1, 2, 2,   //
                                                 0, 0, 0,   //
                                                 nan, 1, 0, //
                                                 -3, -2, -1});
  const auto labels = tensor::of<std::int32_t>({5}, {1, 2, 0, 0, 2});
  EXPECT_EQ(correct(scores, labels), 3u);
  EXPECT_EQ(correct(tensor{{0, 3}}, tensor{{0}, dtype::int32}), 0u);
}

TEST(Metrics, RejectLabelsAndShapesThatDoNotFit) {
  const auto scores = tensor::zeros({1, 3});
  for (const std::int32_t bad : {-1, 3})
    EXPECT_THROW(correct(scores, tensor::of<std::int32_t>({1}, {bad})),
                 std::logic_error);
  EXPECT_THROW(correct(scores, tensor::zeros({2}, dtype::int32)),
               std::logic_error);
}

TEST(Metrics, AddLossesInFloat64) {
  tensor losses{{3}};
  losses.copy_from(tensor::of<float>({3}, {16777216, 1, 1}));
  EXPECT_EQ(total(losses), 16777218.0);
  EXPECT_EQ(total(tensor{{0}}), 0.0);
}

} // namespace
} // namespace troupe::models
