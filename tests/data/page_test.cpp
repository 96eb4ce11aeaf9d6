#include "troupe/data/sources/csv.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <gtest/gtest.h>

#include <cmath>

// The examples of docs/data.md.

namespace troupe {
namespace {

TEST(DataPage, AChainIsReadEpochByEpoch) {
  std::uint64_t examples = 0;
  // [doc:begin chain]
  auto [train, test] = data::digits({.examples = 1'000, .seed = 1}).split(0.8);
  auto batches = train.shuffle(data::whole_dataset, 7).batch(64).prefetch(2);

  for (std::uint64_t pass = 0; pass < 3; ++pass) {
    auto each = batches.iterate({pass, 0});
    for (const troupe::batch& x : each)
      examples += x.labels.size(); // x.inputs is [64, 28, 28, 1]
  }
  // [doc:end]
  EXPECT_EQ(examples, 3u * 800);
  EXPECT_EQ(test.size(), 200u);
}

TEST(DataPage, ACursorResumesAtASavedPosition) {
  const auto batches = data::digits({.examples = 100}).shuffle().batch(8);
  // [doc:begin resume]
  auto first = batches.iterate();
  first.next();
  const data::position stood = first.save(); // {.epoch = 0, .index = 1}

  auto second = batches.iterate(stood);
  // [doc:end]
  EXPECT_TRUE(same_bits(first.next()->inputs, second.next()->inputs));
}

TEST(DataPage, AFunctionIsASource) {
  // [doc:begin own]
  // Points inside and outside a circle, generated when they are read.
  data::dataset circle{10'000, 2, [](std::uint64_t i) {
                         const float x = float(i % 100) / 50 - 1;
                         const float y = float(i / 100) / 50 - 1;
                         const auto inside = x * x + y * y < 0.5f;
                         return troupe::batch{
                           tensor::of<float>({2}, {x, y}),
                           tensor::full({}, inside, dtype::int32)};
                       }};
  // [doc:end]
  const auto all = circle.examples(0, 10'000);
  EXPECT_EQ(all.inputs.dims(), (shape{10'000, 2}));
  EXPECT_EQ(all.labels.data<std::int32_t>()[50 * 100 + 50], 1);
  EXPECT_EQ(all.labels.data<std::int32_t>()[0], 0);
}

class TablePage : public scratch_test {};

TEST_F(TablePage, ColumnsAreScaledInMap) {
  put("flowers.csv", "length,width,kind\n0,2,0\n10,4,1\n");
  const auto file = folder / "flowers.csv";
  // [doc:begin csv]
  auto flowers = data::csv(file, {.label = "kind"})
                   .map([](const troupe::batch& x) {
                     auto inputs = x.inputs.clone();
                     inputs.mutable_data<float>()[0] /= 10; // length, in cm
                     return troupe::batch{inputs, x.labels};
                   })
                   .shuffle(data::whole_dataset, 1, /*each_epoch=*/false);
  auto [train, test] = flowers.split(0.5);
  // [doc:end]
  EXPECT_EQ(train.size(), 1u);
  EXPECT_EQ(test.size(), 1u);
  const auto x = flowers.examples(0, 2).inputs.as(dtype::float64);
  EXPECT_EQ(x.data<double>()[0] + x.data<double>()[2], 1.0);
}

} // namespace
} // namespace troupe
