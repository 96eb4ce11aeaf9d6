#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tests/support/collected_warnings.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

using parameter_server::consistency_kind;

models::model_description line(std::int64_t outputs) {
  return {.name = "line",
          .input = {2},
          .layers = models::stack(models::dense{outputs})};
}

data::dataset labelled(int examples, int classes, int rows) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < examples; ++i)
    labels.push_back(i % classes);
  return data::dataset{tensor::full({examples, 2}, 1),
                       tensor::of<std::int32_t>({examples}, labels), classes}
    .batch(rows);
}

data::dataset values(int examples, std::int64_t width) {
  return data::dataset{tensor::full({examples, 2}, 1),
                       tensor::full({examples, width}, 1)}
    .batch(2);
}

/// A fit that every strategy refuses before its first step.
struct refused_fit {
  std::string name;
  data::dataset batches;
  std::optional<data::dataset> validation{};
  std::uint64_t epochs = 1;
  std::vector<float> class_weights{};
  std::string loss = "softmax_cross_entropy";
  std::uint32_t replicas = 1;
};

std::vector<refused_fit> refused_fits() {
  const auto good = labelled(6, 3, 2);
  const std::string squares = "mean_squared_error";
  return {
    {.name = "NegativeWeight", .batches = good, .class_weights = {1, -1, 1}},
    {.name = "WeightThatIsNoNumber",
     .batches = good,
     .class_weights = {1, std::nanf(""), 1}},
    {.name = "TooFewWeights", .batches = good, .class_weights = {1, 1}},
    {.name = "TooManyWeights", .batches = good, .class_weights = {1, 1, 1, 1}},
    {.name = "WeightsOfValues",
     .batches = values(6, 3),
     .class_weights = {1, 1, 1},
     .loss = squares},
    {.name = "ClassesAsValues", .batches = good, .loss = squares},
    {.name = "ValuesAsClasses", .batches = values(6, 3)},
    {.name = "TooManyClasses", .batches = labelled(10, 5, 2)},
    {.name = "ValuesOfAnotherWidth", .batches = values(6, 2), .loss = squares},
    {.name = "ValidationOfAnotherWidth",
     .batches = values(6, 3),
     .validation = values(6, 2),
     .loss = squares},
    {.name = "NoEpoch", .batches = good, .epochs = 0},
    {.name = "NoBatch", .batches = good.take(0)},
    {.name = "NoEnd", .batches = good.repeat()},
    {.name = "SingleExamples",
     .batches = data::dataset{tensor::full({6, 2}, 1),
                              tensor::zeros({6}, dtype::int32), 3}},
    {.name = "TooSmallBatches", .batches = good, .replicas = 4},
  };
}

class RefusedFit : public ::testing::TestWithParam<refused_fit> {};

INSTANTIATE_TEST_SUITE_P(All, RefusedFit, ::testing::ValuesIn(refused_fits()),
                         [](const auto& x) { return x.param.name; });

TEST_P(RefusedFit, IsRefusedOnServersAsElsewhere) {
  const auto& x = GetParam();
  const one_device_strategy local{"cpu:0", {.replicas = x.replicas}};
  const auto scope = local.scope();
  model alone{line(3), sgd{}, {.loss = x.loss}};
  const auto expected = test::text_of([&] {
    alone.fit(x.batches, {.epochs = x.epochs,
                          .validation = x.validation,
                          .class_weights = x.class_weights});
  });
  EXPECT_NE(expected, "no error");
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "line", line(3), sgd{}, {.loss = x.loss}};
  const auto before = trained.weights_sha256();
  EXPECT_EQ(test::text_of([&] {
              trained.fit(
                coordinator, x.batches,
                {.epochs = x.epochs,
                 .validation = x.validation,
                 .class_weights = x.class_weights,
                 .consistency = {.kind = consistency_kind::synchronous},
                 .replicas = x.replicas});
            }),
            expected);
  EXPECT_EQ(trained.weights_sha256(), before);
  EXPECT_EQ(trained.steps(), 0u);
}

TEST(RefusedEvaluation, IsRefusedOnServersAsElsewhere) {
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "line", line(3), sgd{}};
  model alone{line(3), sgd{}};
  for (const auto& data : {labelled(10, 5, 2), values(6, 3)})
    EXPECT_EQ(test::text_of([&] { trained.evaluate(coordinator, data); }),
              test::text_of([&] { alone.evaluate(data); }));
}

/// The promise of equal bits is limited: on servers each replica tests its own
/// gradient, other strategies test the sum.
TEST(LargeGradients, OfAReplicaAreNotFiniteOnServers) {
  constexpr float large = 2e38F;
  // The weight is 0, so the losses are 1. The gradients are 2e38 and -2e38:
  // each is above FLT_MAX / 2, and their sum is 0.
  const models::model_description net{
    .name = "net",
    .input = {1},
    .layers = models::stack(
      models::dense{.units = 1, .kernel_initializer = initializer{"zeros"}})};
  const model_options options{.loss = "mean_absolute_error"};
  const auto data = data::dataset{tensor::of<float>({2, 1}, {large, large}),
                                  tensor::of<float>({2, 1}, {-1, 1})}
                      .batch(2);
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{net, sgd{}, options};
  alone.fit(data);
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "net", net, sgd{}, options};
  EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256()); // all are 0
  const auto said = test::text_of([&] {
    trained.fit(
      coordinator, data,
      {.consistency = {.kind = consistency_kind::synchronous}, .replicas = 2});
  });
  EXPECT_NE(said.find("gradient"), std::string::npos) << said;
  EXPECT_NE(said.find("is not finite"), std::string::npos) << said;
  EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
}

TEST(CopiedState, DoesNotDependOnTheLearningRate) {
  const auto batches = labelled(6, 3, 2);
  model source{line(3), adam{.learning_rate = 0.1F}};
  source.fit(batches, {.epochs = 2});
  source.optimizer().set_learning_rate(0.05F);
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "line", line(3), adam{.learning_rate = 0.1F}};
  EXPECT_TRUE(trained.copy_from(source));
  EXPECT_EQ(trained.steps(), 6u);
  model back{line(3), adam{.learning_rate = 0.7F}};
  EXPECT_TRUE(trained.copy_to(back));
  EXPECT_EQ(back.steps(), 6u);
  // Each goes on with the rate of its own, from the same slots.
  source.optimizer().set_learning_rate(0.1F);
  source.fit(batches);
  trained.fit(coordinator, batches);
  EXPECT_EQ(trained.weights_sha256(), source.weights_sha256());
}

TEST(CopiedState, OfAnotherRuleIsLeftOutAndSaidSo) {
  model source{line(3), adam{}};
  source.fit(labelled(6, 3, 2));
  runtime actors;
  const parameter_server_strategy on{actors};
  server_model trained{on, "line", line(3), adam{.epsilon = 1e-7F}};
  {
    const test::collected_warnings warnings;
    EXPECT_FALSE(trained.copy_from(source));
    EXPECT_TRUE(warnings.contain("copy_from has copied the parameters only"))
      << warnings.text;
    EXPECT_TRUE(warnings.contain("epsilon=1e-08")) << warnings.text;
    EXPECT_TRUE(warnings.contain("epsilon=1e-07")) << warnings.text;
  }
  EXPECT_EQ(trained.steps(), 0u);
  EXPECT_EQ(trained.weights_sha256(), source.weights_sha256());
  model target{line(3), sgd{}};
  {
    const test::collected_warnings warnings;
    EXPECT_FALSE(trained.copy_to(target));
    EXPECT_TRUE(warnings.contain("copy_to has copied the parameters only"))
      << warnings.text;
  }
  EXPECT_EQ(target.weights_sha256(), source.weights_sha256());
  EXPECT_EQ(target.steps(), 0u);
}

} // namespace
} // namespace troupe
