#include "server_nodes.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_training.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// A worker on a node trains as the program of the coordinator does, or is
// refused.

namespace {

using namespace troupe;
using namespace troupe::test;

models::model_description net(activation applied) {
  models::dense hidden{8};
  hidden.activation = applied;
  return {.name = "t",
          .input = {2},
          .layers = models::stack(hidden, models::dense{3})};
}

/// Rows with three classes. @param shift of the class numbers.
data::dataset rows(std::int64_t count, std::int64_t shift = 0) {
  tensor inputs{shape{count, 2}}, labels{{shape{count}, dtype::int32}};
  const auto xs = inputs.mutable_data<float>();
  const auto ys = labels.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    xs[std::size_t(2 * i)] = float(i % 7) / 7;
    xs[std::size_t(2 * i + 1)] = float(i % 5) / 5;
    ys[std::size_t(i)] = std::int32_t((i + shift) % 3);
  }
  return {inputs, labels, 3};
}

server_training described() {
  return {.name = "m",
          .architecture = net(activation::relu),
          .rule = sgd{.learning_rate = 0.5f},
          .batches = rows(60).batch(10),
          .validation = rows(20).batch(10)};
}

/// What the program of the coordinator does with the trained model.
using program = std::function<void(server_model&, cluster_coordinator&)>;

/// Runs a program whose only worker is on a node.
/// @param on_node what the node trains.
/// @returns the error.
std::string error_of(const server_training& on_node, const program& fn) {
  const auto servers = make_nodes(1);
  runtime of_worker, actors;
  register_server_training(
    of_worker, [&](const std::string&) { return on_node; }, without_secret());
  node_server worker{of_worker,
                     {.connection = {.credentials = net::credentials{}}}};
  return text_of([&] {
    const parameter_server_strategy strategy{actors, on(servers, 1)};
    server_model trained{strategy, "m", net(activation::relu),
                         sgd{.learning_rate = 0.5f}};
    const server_model other{strategy, "other", net(activation::relu),
                             sgd{.learning_rate = 0.5f}};
    cluster_coordinator coordinator{strategy,
                                    {.nodes = {worker.address()},
                                     .closures = server_training_closures,
                                     .node_connection = without_secret()}};
    fn(trained, coordinator);
  });
}

std::string error_of_fit(const std::function<void(server_training&)>& change,
                         const server_fit_options& options = {}) {
  auto on_node = described();
  change(on_node);
  return error_of(on_node, [&](auto& trained, auto& coordinator) {
    trained.fit(coordinator, rows(60).batch(10), options);
  });
}

void expect_mention(const std::string& text, const std::string& its,
                    const std::string& coordinators) {
  EXPECT_NE(text.find("has \"" + its), text.npos) << text;
  EXPECT_NE(text.find("but the coordinator has \"" + coordinators), text.npos)
    << text;
}

void no_change(server_training&) {}

TEST(ServerTraining, AnEqualWorkerTrainsAndEvaluates) {
  EXPECT_EQ(error_of_fit(no_change, {.validation = rows(20).batch(10)}),
            "no error");
  EXPECT_EQ(error_of(described(),
                     [](auto& trained, auto& coordinator) {
                       trained.evaluate(coordinator, rows(20).batch(10));
                     }),
            "no error");
}

TEST(ServerTraining, ClassWeightsOfOneSideAreRefused) {
  const std::vector<float> weights{5, 1, 0};
  const auto on_node = [&](server_training& x) { x.class_weights = weights; };
  expect_mention(error_of_fit(no_change, {.class_weights = weights}),
                 "class weights: none\"", "class weights: 5 1 0\"");
  expect_mention(error_of_fit(on_node), "class weights: 5 1 0\"",
                 "class weights: none\"");
  EXPECT_EQ(error_of_fit(on_node, {.class_weights = weights}), "no error");
}

TEST(ServerTraining, AWorkerWithOtherDataIsRefused) {
  expect_mention(
    error_of_fit([](auto& x) { x.batches = rows(60, 1).batch(10); }),
    "hash of the first batch: ", "hash of the first batch: ");
  expect_mention(error_of_fit([](auto& x) { x.batches = rows(58).batch(10); }),
                 "examples per epoch: 58\"", "examples per epoch: 60\"");
}

TEST(ServerTraining, AWorkerWithOtherValidationDataIsRefused) {
  const auto other = [](auto& x) { x.validation = rows(20, 1).batch(10); };
  EXPECT_EQ(error_of_fit(other), "no error"); // it is not used
  expect_mention(error_of_fit(other, {.validation = rows(20).batch(10)}),
                 "hash of the first batch of the validation data: ",
                 "hash of the first batch of the validation data: ");
}

/// The program has a second model with the same network and rule.
TEST(ServerTraining, AWorkerThatTrainsAnotherModelIsRefused) {
  auto on_node = described();
  on_node.name = "other";
  const auto text = error_of(on_node, [](auto& trained, auto& coordinator) {
    trained.fit(coordinator, rows(60).batch(10));
  });
  expect_mention(text, "variable: other float32[80]\"",
                 "variable: m float32[80]\"");
}

TEST(ServerTraining, NumbersAreComparedExactly) {
  const auto above = std::nextafter(0.5F, 1.0F);
  // The server compares the rules, before the first task.
  const auto rules =
    error_of_fit([&](auto& x) { x.rule = sgd{.learning_rate = above}; });
  for (const auto* rule :
       {"is \"sgd learning_rate=0.5 ", "not \"sgd learning_rate=0.50000006 "})
    EXPECT_NE(rules.find(rule), rules.npos) << rules;
  expect_mention(error_of_fit(
                   [&](auto& x) {
                     x.class_weights = {1, above, 1};
                   },
                   {.class_weights = {1, 0.5F, 1}}),
                 "class weights: 1 0.50000006 1\"", "class weights: 1 0.5 1\"");
}

TEST(ServerTraining, AWorkerThatComputesOtherwiseIsRefused) {
  expect_mention(
    error_of_fit([](auto& x) { x.architecture = net(activation::none); }),
    "layer 1: {\"type\":\"dense\"", "layer 1: {\"type\":\"dense\"");
  expect_mention(error_of_fit([](auto& x) {
                   x.options.precision = models::precision::bf16;
                 }),
                 "precision: bf16", "precision: float32\"");
  expect_mention(error_of_fit([](auto& x) { x.options.seed = 2; }), "seed: 2\"",
                 "seed: 1\"");
  expect_mention(
    error_of_fit([](auto& x) { x.metrics = std::vector<models::metric>{}; }),
    "metrics: ", "metrics: accuracy");
}

} // namespace
