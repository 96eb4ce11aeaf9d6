#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tests/support/error_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

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

/// Returns the fraction of pairs of examples with different labels in which the
/// output of the label 1 is greater. A pair in one bucket counts half.
double area_by_pairs(std::span<const float> outputs,
                     std::span<const float> labels, float buckets) {
  const auto bucket = [&](float x) {
    return std::max(1.0f, std::ceil(x * buckets));
  };
  double ordered = 0, pairs = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0)
        continue;
      const auto a = bucket(outputs[i]), b = bucket(outputs[j]);
      ordered += a > b ? 1 : a == b ? 0.5 : 0;
      ++pairs;
    }
  return ordered / pairs;
}

double value_of(const metric& x, const tensor& outputs, const tensor& labels) {
  std::vector<double> sums(x.sums);
  x.add(outputs, labels, sums);
  return x.value(sums);
}

TEST(Metrics, AucIsTheFractionOfOrderedPairs) {
  std::mt19937 rng{7};
  std::vector<float> outputs{0, 1, 0, 1}, labels{0, 1, 1, 0};
  for (int i = 0; i < 300; ++i) {
    outputs.push_back(static_cast<float>(rng() % 1001) / 1000);
    labels.push_back(rng() % 1000 < 200 + 600 * outputs.back() ? 1 : 0);
  }
  const auto n = static_cast<std::int64_t>(outputs.size());
  const auto x = tensor::of<float>({n, 1}, outputs),
             y = tensor::of<float>({n}, labels);
  for (const std::uint32_t thresholds : {2, 3, 200, 512})
    EXPECT_NEAR(
      value_of(auc_metric({.num_thresholds = thresholds}), x, y),
      area_by_pairs(outputs, labels, static_cast<float>(thresholds - 1)), 1e-12)
      << thresholds;
  // Two parts in any order have the sums of the whole.
  const auto tested = auc_metric();
  std::vector<double> whole(tested.sums), parts(tested.sums);
  tested.add(x, y, whole);
  tested.add(x.slice(100, n), y.slice(100, n), parts);
  tested.add(x.slice(0, 100), y.slice(0, 100), parts);
  EXPECT_EQ(whole, parts);
}

TEST(Metrics, AucConvertsScoresToProbabilities) {
  const auto scores = tensor::of<float>({5}, {-90, -1, 0, 1, 90});
  const auto labels = tensor::of<std::int32_t>({5}, {0, 1, 0, 0, 1});
  EXPECT_EQ(value_of(auc_metric({.from_logits = true}), scores, labels),
            value_of(auc_metric(),
                     tensor::of<float>({5}, {0, 0.2689f, 0.5f, 0.7311f, 1}),
                     labels));
}

TEST(Metrics, AucOfEqualLabelsIs0AndThatOfNaNIsNaN) {
  const auto ones = tensor::full({2}, 1);
  EXPECT_EQ(value_of(auc_metric(), ones, ones), 0);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool from_logits : {false, true})
    for (const float label : {0.0F, 1.0F})
      EXPECT_TRUE(
        std::isnan(value_of(auc_metric({.from_logits = from_logits}),
                            tensor::of<float>({3}, {nan, 0.5f, 0.75f}),
                            tensor::of<float>({3}, {label, 0, 1}))));
}

TEST(Metrics, AucRejectsWhatItCannotCount) {
  EXPECT_EQ(test::text_of([] { auc_metric({.num_thresholds = 1}); }),
            "auc: num_thresholds is 1; it must be from 2 to 512");
  EXPECT_EQ(test::text_of([] { auc_metric({.num_thresholds = 513}); }),
            "auc: num_thresholds is 513; it must be from 2 to 512");
  const auto half = tensor::full({1}, 0.5), two = tensor::full({1}, 2);
  EXPECT_EQ(test::text_of([&] { value_of(auc_metric(), half, half); }),
            "auc of a label 0.500000; labels are 0 or 1");
  EXPECT_EQ(
    test::text_of([&] { value_of(auc_metric(), two, tensor::full({1}, 1)); }),
    "auc of an output 2.000000, which is not in [0, 1]; set "
    "from_logits if the outputs are scores");
  EXPECT_NE(test::text_of([&] { value_of(auc_metric(), half, {}); }), "");
}

TEST(Metrics, AddLossesInFloat64) {
  tensor losses{{3}};
  losses.copy_from(tensor::of<float>({3}, {16777216, 1, 1}));
  EXPECT_EQ(total(losses), 16777218.0);
  EXPECT_EQ(total(tensor{{0}}), 0.0);
}

} // namespace
} // namespace troupe::models
