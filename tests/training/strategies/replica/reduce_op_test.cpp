#include "troupe/training/strategies/replica/reduce_op.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace {

using namespace troupe;

tensor scalar(float x) {
  return tensor::of<float>({}, {x});
}

std::vector<float> values(const tensor& x) {
  const auto data = x.data<float>();
  return {data.begin(), data.end()};
}

/// Returns the text of the std::logic_error that a call throws.
std::string refusal(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

TEST(Reduce, SumsAndAveragesOverReplicas) {
  const std::vector<tensor> two{scalar(1), scalar(2)};
  EXPECT_EQ(reduce(mean, two).item<float>(), 1.5f);
  EXPECT_EQ(reduce(sum, two).item<float>(), 3.0f);
  const std::vector<tensor> four{scalar(1), scalar(2), scalar(3), scalar(4)};
  EXPECT_EQ(reduce(sum, four).item<float>(), 10.0f);
  EXPECT_EQ(reduce(mean, four).item<float>(), 2.5f);
}

TEST(Reduce, AddsInTreeOrder) {
  // 2^24 + 1 rounds to 2^24, so (1 + 1) + (1 + 2^24) differs from the sum in
  // any other order.
  const std::vector<tensor> parts{scalar(1), scalar(1), scalar(1),
                                  scalar(0x1p24f)};
  EXPECT_EQ(reduce(sum, parts).item<float>(), 2 + (1 + 0x1p24f));
  const std::vector<tensor> three{scalar(1), scalar(1), scalar(0x1p24f)};
  EXPECT_EQ(reduce(sum, three).item<float>(), 0x1p24f + 2);
}

TEST(Reduce, KeepsTheShapeWithoutAnAxis) {
  const std::vector<tensor> parts{tensor::of<float>({2}, {1, 2}),
                                  tensor::of<float>({2}, {10, 20})};
  EXPECT_EQ(values(reduce(sum, parts)), (std::vector<float>{11, 22}));
  EXPECT_EQ(values(reduce(sum, parts, {})), (std::vector<float>{11, 22}));
}

TEST(Reduce, WeightsAMeanAlongAnAxisByTheNumberOfElements) {
  const std::vector<tensor> parts{tensor::of<float>({4}, {1, 2, 3, 4}),
                                  tensor::of<float>({2}, {5, 9})};
  EXPECT_EQ(reduce(mean, parts, {0}).item<float>(), 4.0f); // 24 / 6
  EXPECT_EQ(reduce(sum, parts, {-1}).item<float>(), 24.0f);
}

TEST(Reduce, ReducesOverSeveralAxes) {
  const std::vector<tensor> inputs{
    tensor::of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
    tensor::of<float>({1, 2, 2}, {10, 20, 30, 40})};
  EXPECT_EQ(values(reduce(sum, inputs, {0, 2})),
            (std::vector<float>{1 + 2 + 5 + 6 + 30, 3 + 4 + 7 + 8 + 70}));
  EXPECT_EQ(reduce(mean, inputs, {0, 1, -1}).item<float>(), 136.0f / 12);
  EXPECT_EQ(values(reduce(mean, inputs, {0})),
            (std::vector<float>{16 / 3.0f, 28 / 3.0f, 40 / 3.0f, 52 / 3.0f}));
}

TEST(Reduce, TakesAxesThatTheProgramComputed) {
  const std::vector<tensor> inputs{
    tensor::of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
    tensor::of<float>({1, 2, 2}, {10, 20, 30, 40})};
  std::vector<int> all_but_the_middle;
  for (int axis = 0; axis < 3; ++axis)
    if (axis != 1)
      all_but_the_middle.push_back(axis);
  EXPECT_TRUE(same_bits(reduce(sum, inputs, all_but_the_middle),
                        reduce(sum, inputs, {0, 2})));
}

TEST(Reduce, EmptyPartContributesNothing) {
  const std::vector<tensor> parts{tensor::of<float>({2}, {3, 5}),
                                  tensor{shape{0}}};
  EXPECT_EQ(reduce(mean, parts, {0}).item<float>(), 4.0f);
}

TEST(Reduce, SumsIntegersButRejectsTheirMean) {
  const std::vector<tensor> parts{tensor::of<std::int64_t>({2}, {1, 2}),
                                  tensor::of<std::int64_t>({2}, {3, 4})};
  EXPECT_EQ(reduce(sum, parts).data<std::int64_t>()[1], 6);
  EXPECT_EQ(reduce(sum, parts, {0}).item<std::int64_t>(), 10);
  EXPECT_THROW(reduce(mean, parts), std::logic_error);
}

TEST(Reduce, MismatchedValuesAreRejected) {
  const std::vector<tensor> parts{tensor{shape{2}}, tensor{shape{3}}};
  EXPECT_EQ(refusal([&] { reduce(sum, parts); }),
            "replica 1 holds float32[3], but replica 0 float32[2]; name the "
            "axes along which they differ, if they have as many");
  const std::vector<tensor> types{tensor{shape{2}},
                                  tensor{shape{2}, dtype::int64}};
  EXPECT_EQ(refusal([&] { reduce(sum, types, {0}); }),
            "replica 1 holds int64[2], but replica 0 float32[2]; all replicas "
            "must hold the same dtype");
  const std::vector<tensor> wide{tensor{shape{2, 2}}, tensor{shape{3, 4}}};
  EXPECT_EQ(refusal([&] { reduce(sum, wide, {0}); }),
            "replica 1 holds float32[3, 4], but replica 0 float32[2, 2]; name "
            "the axes along which they differ, if they have as many");
  EXPECT_THROW(reduce(sum, parts, {1}), std::logic_error);
  EXPECT_THROW(reduce(sum, parts, {0, -1}), std::logic_error);
  EXPECT_THROW(reduce(sum, std::span<const tensor>{}), std::logic_error);
}

TEST(Concatenate, JoinsInOrderAlongAnAxis) {
  const std::vector<tensor> inputs{
    tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
    tensor::of<float>({1, 3}, {7, 8, 9})};
  const auto rows = concatenate(inputs, 0);
  EXPECT_EQ(rows.dims(), (shape{3, 3}));
  EXPECT_EQ(values(rows), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(refusal([&] { concatenate(inputs, 1); }),
            "replica 1 holds float32[1, 3], but replica 0 float32[2, 3]; "
            "values that are gathered along axis 1 may differ only in its "
            "extent");
  const std::vector<tensor> wide{tensor::of<float>({2, 1}, {1, 2}),
                                 tensor::of<float>({2, 2}, {3, 4, 5, 6})};
  EXPECT_EQ(values(concatenate(wide, -1)),
            (std::vector<float>{1, 3, 4, 2, 5, 6}));
  const std::vector<tensor> scalars{scalar(1)};
  EXPECT_THROW(concatenate(scalars, 0), std::logic_error);
}

TEST(Reduce, IntegerOverflowWrapsAround) {
  const auto sum_of = []<class T>(T a, T b) {
    const std::vector<tensor> two{tensor::of<T>({1}, {a}),
                                  tensor::of<T>({1}, {b})};
    EXPECT_EQ(reduce(sum, two, {0}).template item<T>(),
              reduce(sum, two).template item<T>());
    return reduce(sum, two).template item<T>();
  };
  using small = std::numeric_limits<std::int32_t>;
  using large = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(sum_of(small::max(), std::int32_t{1}), small::min());
  EXPECT_EQ(sum_of(large::max(), std::int64_t{1}), large::min());
  EXPECT_EQ(sum_of(large::min(), std::int64_t{-1}), large::max());
}

} // namespace
