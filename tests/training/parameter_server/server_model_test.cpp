#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/training/parameter_server/server_model.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace troupe {
namespace {

data::dataset digits(std::uint64_t examples) {
  return data::digits({.examples = examples, .seed = 3});
}

/// A network with dropout, whose masks depend on the step.
models::model_description with_dropout() {
  using namespace models;
  return {.name = "small",
          .input = {28, 28, 1},
          .layers = stack(flatten{}, dense{16, activation::relu}, dropout{0.25},
                          dense{10})};
}

TEST(ServerModel, OneWorkerTrainsToTheBitsOfOneDevice) {
  const auto batches = digits(200).shuffle().batch(48); // the last one has 8
  const schedule rate =
    step_schedule{.learning_rate = 0.01F, .factor = 0.5F, .every = 3};
  model alone{with_dropout(), adam{}, {.seed = 5}};
  const auto expected = alone.fit(batches, {.epochs = 2, .schedule = rate});
  for (const std::uint32_t servers : {1u, 3u}) {
    runtime actors;
    const parameter_server_strategy on{
      actors,
      {.servers = servers,
       .workers = 1,
       .partitioner = parameter_server::fixed_shards_partitioner(servers)}};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    const auto found =
      trained.fit(coordinator, batches, {.epochs = 2, .schedule = rate});
    EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
    ASSERT_EQ(found.epochs.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
      EXPECT_EQ(found.epochs[i].accuracy, expected.epochs[i].accuracy);
      EXPECT_EQ(found.epochs[i].examples, 200u);
      EXPECT_EQ(found.epochs[i].steps, expected.epochs[i].steps);
      EXPECT_EQ(found.epochs[i].learning_rate,
                expected.epochs[i].learning_rate);
    }
  }
}

TEST(ServerModel, SeveralWorkersTrainOnEachExampleOnce) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 3}};
  cluster_coordinator coordinator{on, {.in_flight = 2}};
  server_model trained{on, "mlp", with_dropout(), sgd{.learning_rate = 0.05F}};
  const auto [train, test] = digits(600).split(0.8);
  std::uint64_t epochs = 0;
  const auto found = trained.fit(
    coordinator, train.shuffle().batch(16),
    {.epochs = 12,
     .validation = test.batch(50),
     .on_epoch_end = [&](const epoch_record& x) {
       EXPECT_EQ(x.epoch, ++epochs);
       EXPECT_EQ(x.examples, 480u);
       EXPECT_TRUE(coordinator.remove_worker(coordinator.workers().front()));
       coordinator.add_worker();
     }});
  EXPECT_EQ(epochs, 12u);
  EXPECT_EQ(trained.steps(), 360u);
  EXPECT_EQ(on.status()[0].updates, 360u); // each step counts once
  EXPECT_LT(found.epochs[11].loss, found.epochs[0].loss);
  EXPECT_GT(found.epochs[11].validation_accuracy, 0.3);
}

TEST(ServerModel, EvaluatesAsTheModelThatGetsItsWeights) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{.learning_rate = 0.1F}};
  trained.fit(coordinator, digits(96).batch(32));
  model copy{with_dropout(), sgd{}};
  EXPECT_NE(copy.weights_sha256(), trained.weights_sha256());
  trained.copy_to(copy);
  EXPECT_EQ(copy.weights_sha256(), trained.weights_sha256());
  const auto found = trained.evaluate(coordinator, digits(50).batch(20));
  const auto expected = copy.evaluate(digits(50).batch(20));
  EXPECT_EQ(found.examples, 50u);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(found.accuracy, expected.accuracy);
  model other{models::mlp(), sgd{}};
  EXPECT_THROW(trained.copy_to(other), std::invalid_argument);
}

TEST(ServerModel, EndsIfALossIsNotFinite) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  const auto before = trained.weights_sha256();
  auto bad = tensor::zeros({4, 28, 28, 1});
  bad.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto batches =
    data::dataset{bad, tensor::of<std::int32_t>({4}, {0, 1, 2, 3}), 10}.batch(
      4);
  EXPECT_THROW(trained.fit(coordinator, batches), std::runtime_error);
  EXPECT_EQ(trained.weights_sha256(), before);
  const auto skipped =
    trained.fit(coordinator, batches, {.on_nan = on_nan::skip});
  EXPECT_EQ(skipped.epochs.size(), 1u);
  EXPECT_EQ(trained.weights_sha256(), before);
}

TEST(ServerModel, EndsWhenItIsToldToStop) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  const std::atomic<bool> stop = true;
  const auto found =
    trained.fit(coordinator, digits(64).batch(16), {.stop = &stop});
  EXPECT_EQ(found.end, fit_end::interrupted);
  EXPECT_TRUE(found.epochs.empty());
  EXPECT_EQ(trained.steps(), 0u);
}

TEST(ServerModel, RejectsDataThatDoesNotFit) {
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  EXPECT_THROW(trained.fit(coordinator, digits(8).batch(4).repeat()),
               std::invalid_argument);
  const data::dataset other{tensor::zeros({4, 7}),
                            tensor::of<std::int32_t>({4}, {0, 1, 2, 3}), 10};
  EXPECT_THROW(trained.fit(coordinator, other.batch(2)), std::invalid_argument);
  EXPECT_THROW((server_model{on, "mlp", with_dropout(), sgd{}}),
               std::invalid_argument);
}

} // namespace
} // namespace troupe
