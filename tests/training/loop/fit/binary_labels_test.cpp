#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

#include <cmath>

// Fits of a network with one output to the labels 0 and 1.

namespace {

using namespace troupe;

constexpr std::int64_t examples = 203, features = 3;

/// Returns points whose label is probably 1 above a plane.
data::dataset labeled_points() {
  random_stream draw{{.seed = 4}};
  std::vector<float> points;
  std::vector<float> labels;
  for (std::int64_t i = 0; i < examples; ++i) {
    float score = 0.5f;
    for (std::int64_t k = 0; k < features; ++k) {
      points.push_back(draw.uniform(-1, 1));
      score += float(k - 1) * 3 * points.back();
    }
    labels.push_back(draw.uniform(-3, 3) < score ? 1.0f : 0.0f);
  }
  return {tensor::of<float>({examples, features}, points),
          tensor::of<float>({examples}, labels)};
}

model classifier() {
  return {{.name = "line",
           .input = {features},
           .layers = models::stack(models::dense{1})},
          sgd{.learning_rate = 2},
          {.loss = "binary_cross_entropy"}};
}

const std::vector<models::metric> area{
  models::auc_metric({.from_logits = true})};

/// The gradient of the mean loss is the mean of (probability - label) * x,
/// which is zero at the minimum.
TEST(BinaryLabels, AFitReachesTheMaximumLikelihood) {
  const auto points = labeled_points();
  auto it = classifier();
  const auto before = it.evaluate(points.batch(50), {.metrics = area});
  const auto seen = it.fit(points.batch(examples), {.epochs = 1000});
  const auto all = points.examples(0, examples);
  const auto scores = it.predict(all.inputs);
  double loss = 0;
  std::vector<double> slope(features + 1);
  for (std::size_t i = 0; i < examples; ++i) {
    const double x = scores.data<float>()[i];
    const auto label = double(all.labels.data<float>()[i]);
    const auto p = 1 / (1 + std::exp(-x));
    loss -= std::log(label == 1 ? p : 1 - p) / examples;
    for (std::size_t k = 0; k < features; ++k)
      slope[k] += (p - label)
                  * double(all.inputs.data<float>()[i * features + k])
                  / examples;
    slope[features] += (p - label) / examples;
  }
  for (const auto one : slope)
    EXPECT_NEAR(one, 0, 1e-4);
  const auto after = it.evaluate(points.batch(50), {.metrics = area});
  EXPECT_NEAR(after.loss, loss, 1e-6);
  EXPECT_NEAR(seen.last().loss, loss, 1e-4);
  EXPECT_GT(after.metrics.at(0).value, before.metrics.at(0).value);
  EXPECT_GT(after.metrics.at(0).value, 0.8);
}

/// The area under the curve has the bits of one replica with any number of
/// them, because counts are exact.
TEST(BinaryLabels, TheAreaUnderTheCurveDoesNotDependOnTheReplicas) {
  const auto points = labeled_points();
  const auto area_on = [&](const strategy& on) {
    const auto scope = on.scope();
    auto it = classifier();
    const auto found = it.evaluate(points.batch(48), {.metrics = area});
    EXPECT_EQ(found.metrics.at(0).name, "auc");
    return found.metrics.at(0).value;
  };
  const auto it = classifier();
  const auto all = points.examples(0, examples);
  std::vector<double> sums(area[0].sums);
  area[0].add(it.predict(all.inputs), all.labels, sums);
  const auto expected = area[0].value(sums);
  runtime actors;
  EXPECT_EQ(area_on(turns(1)), expected);
  EXPECT_EQ(area_on(turns(3)), expected);
  EXPECT_EQ(area_on(mirrored_strategy{actors, {"cpu:0", "cpu:1"}}), expected);
}

TEST(BinaryLabels, StrategiesWithEqualReplicasGiveEqualWeights) {
  const auto outcome = [&](const strategy& on) {
    const auto scope = on.scope();
    auto it = classifier();
    const auto seen = it.fit(labeled_points().shuffle().batch(48),
                             {.epochs = 2, .metrics = area});
    return std::pair{it.weights_sha256(), seen.last().metrics.at(0).value};
  };
  runtime actors;
  EXPECT_EQ(outcome(mirrored_strategy{actors, {"cpu:0", "cpu:1"}}),
            outcome(turns(2)));
}

} // namespace
