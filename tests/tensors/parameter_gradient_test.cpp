#include "error_of.hpp"
#include "troupe/tensors/parameter_gradient.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace troupe {
namespace {

/// A dense gradient and a sparse one, with the global norm 13.
parameter_gradients two() {
  const sparse_rows rows{{9, 2},
                         tensor::of<std::int64_t>({2}, {7, 1}),
                         tensor::of<double>({2, 2}, {0, 4, 12, 0})};
  return {tensor::of<float>({1}, {3}), rows};
}

TEST(ParameterGradient, IsDenseOrSparse) {
  const auto list = two();
  EXPECT_FALSE(list[0].is_sparse());
  EXPECT_EQ(list[0].dense().raw(), list[0].elements().raw());
  EXPECT_EQ(error_of([&] { list[0].rows(); }),
            "a gradient float32[1] is dense; it has no list of rows");
  ASSERT_TRUE(list[1].is_sparse());
  EXPECT_TRUE(list[1].rows().is_sorted());
  EXPECT_EQ(list[1].dims(), (shape{9, 2}));
  EXPECT_EQ(list[1].type(), dtype::float64);
  EXPECT_EQ(list[1].dense().data<double>()[2], 12);
  EXPECT_FALSE(parameter_gradient{});
}

TEST(ParameterGradient, NormsReadTheRows) {
  EXPECT_EQ(global_norm(two()), 13);
  EXPECT_EQ(global_norm({}), 0);
}

TEST(ParameterGradient, AreScaledToTheMaximumNorm) {
  auto list = two();
  EXPECT_EQ(clip_by_global_norm(list, 6.5), 13);
  EXPECT_EQ(list[0].dense().item<float>(), 1.5f);
  ASSERT_TRUE(list[1].is_sparse());
  EXPECT_TRUE(
    same_bits(list[1].rows().rows(), tensor::of<double>({2, 2}, {6, 0, 0, 2})));
  EXPECT_EQ(global_norm(list), 6.5);
}

TEST(ParameterGradient, OfASmallerOrOfNoFiniteNormAreNotChanged) {
  auto list = two();
  const auto before = list[0].dense();
  EXPECT_EQ(clip_by_global_norm(list, 13), 13);
  EXPECT_EQ(list[0].dense().raw(), before.raw());
  list[0] = tensor::full({1}, std::numeric_limits<double>::infinity());
  const auto infinite = list[0].dense();
  clip_by_global_norm(list, 1);
  EXPECT_EQ(list[0].dense().raw(), infinite.raw());
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(error_of([&] { clip_by_global_norm(list, bad); }), "");
}

} // namespace
} // namespace troupe
