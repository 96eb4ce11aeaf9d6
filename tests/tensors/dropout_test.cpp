#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/dropout.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(Dropout, ARepeatedStepHasTheSameMaskAndTheNextStepAnother) {
  context current;
  const context_scope in{current};
  const auto x = tensor::full({1000}, 1);
  EXPECT_TRUE(same_bits(dropout(x, 0.5f, false), x));
  EXPECT_EQ(current.random.op, 0u); // No random number was drawn.
  const auto draw = [&](std::uint64_t step, std::uint32_t replica) {
    current.random = {7, replica, step, 0};
    const auto first = dropout(x, 0.5f, true), second = dropout(x, 0.5f, true);
    EXPECT_FALSE(same_bits(first, second)); // They are two ops of one step.
    return first;
  };
  EXPECT_TRUE(same_bits(draw(3, 1), draw(3, 1)));
  EXPECT_FALSE(same_bits(draw(3, 1), draw(4, 1)));
  EXPECT_FALSE(same_bits(draw(3, 1), draw(3, 2)));
}

TEST(Dropout, KeepsTheMeanAndTheRate) {
  context here;
  const context_scope in{here};
  here.random.seed = 11;
  const auto y = dropout(tensor::full({100'000}, 1), 0.25f, true);
  double sum = 0, zeros = 0;
  for (const float v : y.data<float>()) {
    sum += v;
    zeros += v == 0;
  }
  EXPECT_NEAR(zeros / 1e5, 0.25, 0.006); // Four standard deviations.
  EXPECT_NEAR(sum / 1e5, 1.0, 0.008);
}

TEST(Dropout, RejectsARateOfOne) {
  EXPECT_THROW(dropout(tensor::full({1}, 1), 1.0f, true), std::logic_error);
  EXPECT_THROW(dropout(tensor::full({1}, 1), -0.1f, true), std::logic_error);
}

} // namespace
} // namespace troupe
