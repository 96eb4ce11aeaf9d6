#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/clicks.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/small_clicks.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

// Models with tables on parameter servers.

namespace troupe {
namespace {

using parameter_server::consistency_kind;

using test::uneven_clicks;

constexpr auto rows = test::click_rows, categories = test::click_categories,
               numbers = test::click_numbers;

models::model_description small_clicks() {
  return test::click_model(5);
}

const model_options on_clicks{.seed = 5, .loss = "binary_cross_entropy"};

const std::vector<update_rule>& rules() {
  static const std::vector<update_rule> all{
    sgd{.learning_rate = 0.5f}, sgd{.learning_rate = 0.1f, .momentum = 0.9f},
    adagrad{}, adam{}, ftrl{.learning_rate = 0.1f}};
  return all;
}

parameter_server_options servers(std::uint32_t count, std::uint32_t workers) {
  return {.servers = count,
          .workers = workers,
          .partitioner = parameter_server::fixed_shards_partitioner(count)};
}

std::uint64_t kept_rows(const parameter_server_strategy& on) {
  std::uint64_t sum = 0;
  for (const auto& one : on.status())
    sum += one.rows;
  return sum;
}

/// Returns the number of rows of the table that the data reads.
std::size_t rows_of(const data::dataset& batches) {
  std::set<std::int64_t> found;
  for (const auto& one : batches.iterate()) {
    const auto all = one["categories"].as(dtype::int64);
    const auto given = all.data<std::int64_t>();
    for (std::size_t i = 0; i < given.size(); ++i)
      found.insert(std::int64_t(i % categories) * rows + given[i]);
  }
  return found.size();
}

TEST(PulledTables, OneReplicaTrainsToTheBitsOfOneDevice) {
  const auto batches = uneven_clicks();
  for (const auto& rule : rules()) {
    SCOPED_TRACE(rule.name());
    model alone{small_clicks(), rule, on_clicks};
    const auto before = alone.weights_sha256();
    const auto expected = alone.fit(batches, {.epochs = 2});
    for (const std::uint32_t count : {1u, 3u})
      for (const auto kind :
           {consistency_kind::asynchronous, consistency_kind::bounded}) {
        runtime actors;
        const bool is_bounded = kind == consistency_kind::bounded;
        const parameter_server_strategy on{actors,
                                           servers(count, is_bounded ? 2 : 1)};
        cluster_coordinator coordinator{on};
        server_model trained{on, "small", small_clicks(), rule, on_clicks};
        EXPECT_EQ(trained.weights_sha256(), before);
        EXPECT_EQ(kept_rows(on), 0u);
        const auto found = trained.fit(
          coordinator, batches,
          {.epochs = 2, .consistency = {.kind = kind}, .replicas = 1});
        EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
        EXPECT_EQ(found.last().loss, expected.last().loss);
        EXPECT_EQ(kept_rows(on), rows_of(batches));
      }
  }
}

TEST(PulledTables, SynchronousStepsHaveTheBitsOfTheMirroredStrategy) {
  const auto batches = uneven_clicks();
  for (const auto& rule : rules()) {
    SCOPED_TRACE(rule.name());
    runtime actors;
    const mirrored_strategy mirrored{
      actors, {"cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:4"}};
    const auto expected = [&] {
      const auto scope = mirrored.scope();
      model all{small_clicks(), rule, on_clicks};
      all.fit(batches, {.epochs = 2});
      return all.weights_sha256();
    }();
    const parameter_server_strategy on{actors, servers(2, 2)};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", small_clicks(), rule, on_clicks};
    trained.fit(coordinator, batches,
                {.epochs = 2,
                 .consistency = {.kind = consistency_kind::synchronous},
                 .replicas = 5});
    EXPECT_EQ(trained.weights_sha256(), expected);
    EXPECT_EQ(kept_rows(on), rows_of(batches));
  }
}

TEST(PulledTables, AreCopiedToAModelAndBack) {
  const auto batches = uneven_clicks();
  const update_rule rule = adam{};
  runtime actors;
  const auto train = [&](server_model& trained, cluster_coordinator& with) {
    trained.fit(
      with, batches,
      {.consistency = {.kind = consistency_kind::bounded}, .replicas = 1});
  };
  model copy{small_clicks(), rule, on_clicks};
  {
    const parameter_server_strategy on{actors, servers(2, 1)};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", small_clicks(), rule, on_clicks};
    train(trained, coordinator);
    trained.copy_to(copy);
    EXPECT_EQ(copy.weights_sha256(), trained.weights_sha256());
    const auto found = trained.evaluate(
      coordinator, batches,
      {.metrics = {{models::auc_metric({.from_logits = true})}}});
    const auto expected = copy.evaluate(
      batches, {.metrics = {{models::auc_metric({.from_logits = true})}}});
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.metrics, expected.metrics);
    EXPECT_EQ(found.metrics.at(0).name, "auc");
  }
  const parameter_server_strategy on{actors, servers(3, 1)};
  cluster_coordinator coordinator{on};
  server_model restored{on, "small", small_clicks(), rule, on_clicks};
  restored.copy_from(copy);
  EXPECT_EQ(restored.weights_sha256(), copy.weights_sha256());
  EXPECT_EQ(kept_rows(on), rows_of(batches)); // the others begin so anyway
  train(restored, coordinator);
  copy.fit(batches, {});
  EXPECT_EQ(restored.weights_sha256(), copy.weights_sha256());
  EXPECT_EQ(restored.steps(), copy.steps());
}

/// A category outside of the table ends the fit with an error that names it.
TEST(PulledTables, RejectCategoriesThatAreNoRows) {
  runtime actors;
  const parameter_server_strategy on{actors, servers(2, 2)};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", small_clicks(), sgd{}, on_clicks};
  const auto wide = data::clicks({.examples = 200,
                                  .numbers = numbers,
                                  .categories = categories,
                                  .rows = 10 * rows});
  try {
    trained.fit(coordinator, wide.batch(50));
    FAIL() << "no error";
  } catch (const std::out_of_range& e) {
    EXPECT_NE(std::string{e.what()}.find("give the layer more rows"),
              std::string::npos);
  }
  EXPECT_EQ(kept_rows(on), 0u);
}

/// The planted model of `clicks` is learned to within 0.01 of the best possible
/// area under the ROC curve. The categories below 64 have all its weights.
TEST(PulledTables, WideDeepLearnsThePlantedModel) {
  constexpr std::uint64_t training = 200'000;
  const data::clicks_options generated{.examples = training + 20'000,
                                       .rows = 64};
  const auto all = data::clicks(generated);
  const auto batches = all.take(training).shuffle().batch(256);
  const auto auc = models::auc_metric({.from_logits = true});
  runtime actors;
  const parameter_server_strategy on{actors, servers(2, 2)};
  cluster_coordinator coordinator{on};
  server_model trained{
    on,
    "wide_deep",
    models::wide_deep(),
    adagrad{.learning_rate = 0.03f, .initial_accumulator_value = 1e-6f},
    {.loss = "binary_cross_entropy"}};
  trained.fit(coordinator, batches,
              {.schedule = cosine_schedule{.learning_rate = 0.03f,
                                           .steps = *batches.size()}});
  const auto found = trained
                       .evaluate(coordinator, all.skip(training).batch(512),
                                 {.metrics = {{auc}}})
                       .metrics.at(0)
                       .value;
  const auto best = data::best_clicks_auc(generated, training);
  EXPECT_GT(found, best - 0.01) << "the best is " << best;
  EXPECT_LT(found, best + 0.01); // the labels deviate from their expectation
  EXPECT_EQ(kept_rows(on), 26u * 64u); // of 2.6 million
}

} // namespace
} // namespace troupe
