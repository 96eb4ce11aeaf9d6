#include "troupe/tensors/ops/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace troupe {
namespace {

tensor counting(const shape& dims) {
  tensor x{dims};
  const auto values = x.mutable_data<float>();
  std::iota(values.begin(), values.end(), 1.0f);
  return x;
}

TEST(Axes, ComputedAxesReduceLikeABracedList) {
  const auto x = counting({2, 3, 5, 7});
  const std::vector<int> last{-1, 2};
  EXPECT_TRUE(same_bits(reduce_sum(x, last), reduce_sum(x, {2, 3})));
  EXPECT_TRUE(
    same_bits(reduce_mean(x, last, true), reduce_mean(x, {2, 3}, true)));
  const std::array<int, 1> first{0};
  EXPECT_TRUE(same_bits(reduce_sum(x, first), reduce_sum(x, {0})));
  EXPECT_TRUE(
    same_bits(reduce_sum(x, std::span{last}.first(1)), reduce_sum(x, {3})));
}

TEST(Axes, NoAxesAreAllAxesOfAReduction) {
  const auto x = counting({2, 3});
  EXPECT_EQ(reduce_sum(x).item<float>(), 21);
  EXPECT_EQ(reduce_sum(x, {}).item<float>(), 21);
  EXPECT_EQ(reduce_sum(x, std::vector<int>{}).item<float>(), 21);
}

TEST(Axes, KeepTheNumbersAfterTheirListIsGone) {
  const auto made = [] {
    const std::vector<int> computed{1, -1};
    return axes{computed};
  }();
  EXPECT_EQ((std::vector<int>(made.begin(), made.end())),
            (std::vector<int>{1, -1}));
  const axes listed = {0, 2};
  EXPECT_EQ((std::vector<int>(listed.begin(), listed.end())),
            (std::vector<int>{0, 2}));
}

TEST(Axes, ListsOfMoreAxesThanATensorHasAreRejected) {
  EXPECT_EQ(axes(std::vector<int>(8)).size(), 8u);
  try {
    const axes list(std::vector<int>(9));
    FAIL() << list.size();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "a list of 9 axes; a tensor has at most 8");
  }
  EXPECT_THROW(reduce_sum(counting({2}), {0, 0, 0, 0, 0, 0, 0, 0, 0}),
               std::logic_error);
  EXPECT_THROW(reduce_sum(counting({2, 3}), std::vector<int>{1, -1}),
               std::logic_error);
  EXPECT_THROW(reduce_sum(counting({2, 3}), std::vector<int>{2}),
               std::logic_error);
}

} // namespace
} // namespace troupe
