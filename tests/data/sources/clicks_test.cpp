#include "troupe/data/sources/clicks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::data {
namespace {

struct example {
  std::span<const float> numbers;
  std::span<const std::int32_t> categories;
  float label;
};

/// Returns examples of a dataset of clicks.
std::vector<example> rows_of(const batch& x) {
  const auto n = std::size_t(x.rows());
  const auto numbers = x.inputs.data<float>();
  const auto categories = x["categories"].data<std::int32_t>();
  std::vector<example> out;
  for (std::size_t i = 0; i < n; ++i)
    out.push_back(
      {numbers.subspan(i * numbers.size() / n, numbers.size() / n),
       categories.subspan(i * categories.size() / n, categories.size() / n),
       x.labels.data<float>()[i]});
  return out;
}

TEST(Clicks, HaveTheTensorsOfAClickModel) {
  const auto all = clicks({.examples = 50});
  EXPECT_EQ(all.classes(), 0);
  EXPECT_EQ(all.batch(50).spec(), (std::vector<named_spec>{
                                    {"inputs", {{50, 13}, dtype::float32}},
                                    {"labels", {{50, 1}, dtype::float32}},
                                    {"categories", {{50, 26}, dtype::int32}}}));
}

TEST(Clicks, AnExampleDoesNotDependOnTheirNumber) {
  const auto few = clicks({.examples = 20}).examples(5, 20);
  const auto many = clicks({.examples = 300}).examples(5, 20);
  const auto other = clicks({.examples = 20, .seed = 2}).examples(5, 20);
  EXPECT_TRUE(same_bits(few.inputs, many.inputs));
  EXPECT_TRUE(same_bits(few["categories"], many["categories"]));
  EXPECT_TRUE(same_bits(few.labels, many.labels));
  EXPECT_FALSE(same_bits(few.inputs, other.inputs));
  EXPECT_FALSE(same_bits(few["categories"], other["categories"]));
}

/// Each of [0, 1), [1, 3), [3, 7), [7, 10) has a quarter of the draws.
TEST(Clicks, LowCategoriesAreFrequent) {
  constexpr int n = 20'000;
  const auto all =
    clicks({.examples = n, .numbers = 1, .categories = 1, .rows = 10})
      .examples(0, n);
  std::vector<int> counts(10);
  for (const auto& x : rows_of(all))
    ++counts.at(std::size_t(x.categories[0]));
  const double expected[]{4, 8, 8, 16, 16, 16, 16, 12, 12, 12};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto mean = n / expected[i];
    EXPECT_NEAR(counts[i], mean, 5 * std::sqrt(mean)) << i;
  }
  const auto one = clicks({.examples = 5, .categories = 1, .rows = 1});
  for (const auto& x : rows_of(one.examples(0, 5)))
    EXPECT_EQ(x.categories[0], 0);
}

/// With one number and one category for all examples, the order of the scores
/// is that of the numbers, or its reverse. The area over the labels that were
/// drawn has a deviation of about 0.004.
TEST(Clicks, TheBestAreaIsThatOfThePlantedScores) {
  constexpr int n = 20'000;
  const clicks_options options{
    .examples = n, .numbers = 1, .categories = 1, .rows = 1};
  auto all = rows_of(clicks(options).examples(0, n));
  std::ranges::sort(all, {}, [](const example& x) { return x.numbers[0]; });
  double ordered = 0, clicked = 0, others = 0;
  for (const auto& x : all) {
    if (x.label == 1) {
      ordered += others;
      ++clicked;
    } else {
      ++others;
    }
  }
  const auto area = ordered / (clicked * others);
  EXPECT_NEAR(std::max(area, 1 - area), best_clicks_auc(options), 0.015);
}

TEST(Clicks, TheBestAreaOfTheDefaultsIsKnown) {
  EXPECT_NEAR(best_clicks_auc({.examples = 70'000}, 60'000), 0.8792, 0.0002);
}

TEST(Clicks, RejectsNumbersOutOfRange) {
  const auto says = [](const clicks_options& options) {
    try {
      clicks(options);
    } catch (const std::invalid_argument& e) {
      return std::string{e.what()};
    }
    return std::string{"no error"};
  };
  EXPECT_EQ(says({.examples = 0}), "generated clicks with 0 examples: give a "
                                   "number from 1 to 16777216");
  EXPECT_EQ(says({.examples = 1, .numbers = 0}),
            "generated clicks with 0 numbers: give a number from 1 to 1000");
  EXPECT_EQ(says({.examples = 1, .categories = 1001}),
            "generated clicks with 1001 categories: give a number from 1 to "
            "1000");
  EXPECT_EQ(says({.examples = 1, .rows = 16'777'217}),
            "generated clicks with 16777217 rows: give a number from 1 to "
            "16777216");
}

} // namespace
} // namespace troupe::data
