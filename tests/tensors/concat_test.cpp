#include "error_of.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe {
namespace {

TEST(Concat, JoinsAlongEachAxis) {
  const auto a = tensor::of<std::int64_t>({2, 2}, {1, 2, 3, 4});
  const auto b = tensor::of<std::int64_t>({2, 1}, {5, 6});
  EXPECT_TRUE(same_bits(concat({a, b}, 1),
                        tensor::of<std::int64_t>({2, 3}, {1, 2, 5, 3, 4, 6})));
  EXPECT_TRUE(same_bits(concat({a, b}, -1), concat({a, b}, 1)));
  EXPECT_TRUE(same_bits(concat({a, b.reshaped({1, 2})}),
                        tensor::of<std::int64_t>({3, 2}, {1, 2, 3, 4, 5, 6})));
}

TEST(Concat, OfManyTensorsHasAllElements) {
  std::vector<tensor> list;
  for (int i = 0; i < 100; ++i)
    list.push_back(tensor::full({1}, i));
  const auto all = concat(list);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(all.data<float>()[i], float(i));
}

TEST(Concat, PassesEachPartOfTheGradientOn) {
  tape t;
  const auto a = t.watch(tensor::of<double>({1, 2}, {1, 2}));
  const auto b = t.watch(tensor::of<double>({2, 2}, {3, 4, 5, 6}));
  const auto weights = tensor::of<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto y = concat({a, b, a}) * weights;
  const auto g = t.gradient(y, std::array{a, b});
  EXPECT_TRUE(same_bits(g[0], tensor::of<double>({1, 2}, {1 + 7, 2 + 8})));
  EXPECT_TRUE(same_bits(g[1], tensor::of<double>({2, 2}, {3, 4, 5, 6})));
}

TEST(Concat, RejectsOtherShapesAndAxes) {
  const auto a = tensor::zeros({2, 2}), b = tensor::zeros({3, 2});
  EXPECT_NE(error_of([&] {
              concat({a, b}, 1);
            }).find("concat tensors that differ in one axis only"),
            std::string::npos);
  EXPECT_EQ(error_of([&] {
              concat({a, b}, 2);
            }),
            "concat along axis 2 of float32[2, 2]");
  EXPECT_EQ(error_of([&] { concat({tensor::full({}, 1)}); }),
            "concat along axis 0 of float32[]");
  EXPECT_EQ(error_of([&] { concat(std::span<const tensor>{}); }),
            "concat of no tensors");
}

} // namespace
} // namespace troupe
