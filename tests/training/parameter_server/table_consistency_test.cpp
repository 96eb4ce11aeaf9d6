#include "troupe/actors/core/log.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/small_clicks.hpp"
#include "troupe/tests/training/parameter_server/seen_numbers.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Models whose tables have another consistency than their other parameters.

namespace troupe {
namespace {

using parameter_server::consistency;
using parameter_server::consistency_kind;
using test::seen_numbers, test::text_of, test::uneven_clicks;

constexpr consistency synchronous{.kind = consistency_kind::synchronous};

consistency bounded(std::uint32_t max_staleness) {
  return {.kind = consistency_kind::bounded, .max_staleness = max_staleness};
}

consistency with_backups(std::uint32_t count) {
  return {.kind = consistency_kind::synchronous, .backup_workers = count};
}

models::model_description small_clicks() {
  return test::click_model(5);
}

const model_options on_clicks{.seed = 5, .loss = "binary_cross_entropy"};

parameter_server_options servers(std::uint32_t count, std::uint32_t workers) {
  return {.servers = count,
          .workers = workers,
          .partitioner = parameter_server::fixed_shards_partitioner(count)};
}

TEST(TableConsistency, OneReplicaHasTheBitsOfOneDevice) {
  const auto batches = uneven_clicks();
  for (const update_rule& rule :
       {update_rule{sgd{.learning_rate = 0.1f, .momentum = 0.9f}},
        update_rule{adagrad{}}, update_rule{adam{}}}) {
    SCOPED_TRACE(rule.name());
    model alone{small_clicks(), rule, on_clicks};
    const auto expected = alone.fit(batches, {.epochs = 2});
    for (const auto& of_tables : {bounded(0), bounded(2), consistency{}}) {
      runtime actors;
      const parameter_server_strategy on{actors, servers(2, 2)};
      cluster_coordinator coordinator{on};
      server_model trained{on, "small", small_clicks(), rule, on_clicks};
      const auto found = trained.fit(coordinator, batches,
                                     {.epochs = 2,
                                      .consistency = synchronous,
                                      .table_consistency = of_tables,
                                      .replicas = 1});
      EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
      EXPECT_EQ(found.last().loss, expected.last().loss);
      // The servers measure the staleness of the gradients of tables.
      const auto staleness = on.status()[0].staleness;
      EXPECT_EQ(staleness.gradients, trained.steps());
      EXPECT_EQ(staleness.largest, 0u);
    }
  }
}

/// The two replicas of a step read different rows, so none sees what the other
/// one changes in this step.
TEST(TableConsistency, ReplicasWithDifferentRowsHaveTheBitsOfSynchronousSteps) {
  const auto batches = uneven_clicks().map([](const batch& from) {
    auto out = from;
    const auto first = shard_of(from.rows(), 0, 2).size();
    auto categories = from["categories"].clone();
    const auto numbers = categories.mutable_data<std::int32_t>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / test::click_categories;
      numbers[i] = numbers[i] / 2 * 2 + (row < first ? 0 : 1);
    }
    for (auto& one : out.others)
      if (one.name == "categories")
        one.value = categories;
    return out;
  });
  const auto trained_by = [&](const update_rule& rule,
                              std::optional<consistency> of_tables) {
    runtime actors;
    const parameter_server_strategy on{actors, servers(2, 2)};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", small_clicks(), rule, on_clicks};
    trained.fit(coordinator, batches,
                {.epochs = 2,
                 .consistency = synchronous,
                 .table_consistency = of_tables,
                 .replicas = 2});
    return trained.weights_sha256();
  };
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  const update_rule plain = sgd{.learning_rate = 0.5f};
  model alone{small_clicks(), plain, on_clicks};
  alone.fit(batches, {.epochs = 2});
  for (const auto& of_tables : {consistency{}, bounded(0), bounded(1)})
    EXPECT_EQ(trained_by(plain, of_tables), alone.weights_sha256());
  // Adam counts the updates of a part, and they are two in each step.
  EXPECT_NE(trained_by(adam{}, bounded(0)), trained_by(adam{}, std::nullopt));
}

/// A model of one number x and one category, whose row has one element e:
/// prediction e k0 + x k1 + b, with the loss (prediction - y)^2.
models::model_description line() {
  models::category_embedding embedding{2, 1};
  embedding.embeddings_initializer = initializer{"ones"};
  models::dense dense{1};
  dense.kernel_initializer = initializer{"ones"};
  return {.name = "line",
          .input = {1},
          .layers = models::stack(embedding, dense),
          .categories = 1};
}

constexpr auto table_of_line = "line/category_embedding_1/embeddings";

/// Batches of examples of `line`, all with category 0.
data::dataset examples_of_line(const std::vector<float>& x,
                               const std::vector<float>& y,
                               std::uint64_t batch_size) {
  const auto n = static_cast<std::int64_t>(x.size());
  batch rows{.inputs = tensor::of<float>({n, 1}, x),
             .labels = tensor::of<float>({n, 1}, y)};
  rows.others.push_back({"categories", tensor::zeros({n, 1}, dtype::int32)});
  return data::dataset::of(rows).batch(batch_size);
}

/// The parameters of `line` and what steps make of them, in exact arithmetic.
struct exact_line {
  double e = 1, k0 = 1, k1 = 1, b = 0;

  /// Makes a step with one example for each replica. All replicas see the other
  /// parameters of the step before.
  /// @param order has each replica twice: when it reads the row, and then when
  ///        it updates it.
  void step(std::span<const float> x, std::span<const float> y, double rate,
            std::span<const std::size_t> order) {
    const auto scale = rate / static_cast<double>(x.size());
    double of_k0 = 0, of_k1 = 0, of_b = 0;
    std::map<std::size_t, double> errors; // of replicas that have read
    for (const auto r : order) {
      if (const auto read = errors.find(r); read != errors.end()) {
        e -= scale * read->second * k0;
        continue;
      }
      const auto error = 2 * (e * k0 + double(x[r]) * k1 + b - double(y[r]));
      errors[r] = error;
      of_k0 += error * e;
      of_k1 += error * double(x[r]);
      of_b += error;
    }
    k0 -= scale * of_k0;
    k1 -= scale * of_k1;
    b -= scale * of_b;
  }

  /// Returns e, k0, k1 and b. They must be exact in float32, so that the
  /// rounding of servers and workers has no effect.
  std::vector<float> values() const {
    std::vector<float> out;
    for (const auto one : {e, k0, k1, b}) {
      out.push_back(static_cast<float>(one));
      EXPECT_EQ(static_cast<double>(out.back()), one);
    }
    return out;
  }
};

/// Returns e, k0, k1 and b of a trained model.
std::vector<float> values_of_line(const parameter_server_strategy& on,
                                  const server_model& trained) {
  const auto rows = on.variable(table_of_line).value();
  const auto others = trained.variable().value();
  const auto at = [&](std::size_t i) { return others.data<float>()[i]; };
  return {rows.data<float>()[0], at(0), at(1), at(16)};
}

/// Returns what steps can make of the parameters: the replicas of a step read
/// the row and update it in any order.
std::set<std::vector<float>> all_results(std::span<const float> x,
                                         std::span<const float> y,
                                         std::uint32_t replicas, double rate,
                                         const exact_line& from = {}) {
  if (x.empty())
    return {from.values()};
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < 2 * replicas; ++i)
    order.push_back(i / 2);
  std::set<std::vector<float>> out;
  do {
    auto next = from;
    next.step(x.first(replicas), y.first(replicas), rate, order);
    out.merge(all_results(x.subspan(replicas), y.subspan(replicas), replicas,
                          rate, next));
  } while (std::ranges::next_permutation(order).found);
  return out;
}

/// The schedule decides on the rate of rows and other parameters, not the rule.
TEST(TableConsistency, EachReplicaUpdatesARowThatAllShare) {
  constexpr float rate = 0.5f;
  const std::vector<float> x{1, 2, 1, -1}, y{3, 2, 2, 1};
  for (const std::uint32_t replicas : {2u, 4u}) {
    const auto expected = all_results(x, y, replicas, double(rate));
    runtime actors;
    const parameter_server_strategy on{actors, {.servers = 2, .workers = 1}};
    cluster_coordinator coordinator{on};
    server_model trained{on,
                         "line",
                         line(),
                         sgd{.learning_rate = 8 * rate},
                         {.loss = "mean_squared_error"}};
    trained.fit(coordinator, examples_of_line(x, y, replicas),
                {.schedule = constant_schedule{rate},
                 .consistency = synchronous,
                 .table_consistency = bounded(0),
                 .replicas = replicas});
    EXPECT_TRUE(expected.contains(values_of_line(on, trained)));
  }
}

/// The second replica of the first step has an infinite gradient.
TEST(TableConsistency, AReplicaThatIsNotFiniteChangesNoTable) {
  const auto batches =
    examples_of_line({1, std::numeric_limits<float>::infinity()}, {4, 3}, 2);
  exact_line expected;
  expected.e -= 0.125 * 2 * (1 + 1 - 4); // of the other replica
  for (const auto skip : {true, false}) {
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 1}};
    cluster_coordinator coordinator{on};
    server_model trained{on,
                         "line",
                         line(),
                         sgd{.learning_rate = 0.25f},
                         {.loss = "mean_squared_error"}};
    const auto fit = [&] {
      trained.fit(coordinator, batches,
                  {.on_nan = skip ? on_nan::skip : on_nan::stop,
                   .consistency = synchronous,
                   .table_consistency = consistency{},
                   .replicas = 2});
    };
    if (skip)
      fit();
    else
      EXPECT_THROW(fit(), std::runtime_error);
    EXPECT_EQ(values_of_line(on, trained), expected.values());
  }
}

/// Examples of `line`. Those of step c have the label c.
data::dataset numbered(std::uint64_t steps, std::uint32_t replicas) {
  std::vector<float> x(steps * replicas, 1), y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back(static_cast<float>(i / replicas));
  return examples_of_line(x, y, replicas);
}

/// A metric that tells for which step a closure computes, after it has read the
/// row and before it updates it.
template <class F>
std::vector<models::metric> on_step(F fn) {
  return {{.name = "step",
           .add = [fn](const tensor& outputs, const tensor& labels,
                       std::span<double>) {
             fn(static_cast<std::uint64_t>(labels.data<float>()[0]), outputs);
           }}};
}

/// Executes closures for a while. If it is cut short by an error of the fit,
/// the fit throws it.
void execute_others(cluster_coordinator& coordinator) {
  try {
    for (int i = 0; i < 500; ++i)
      coordinator.schedule([] { return 0; }).get();
  } catch (const std::exception& e) {
    log(log_level::debug, e.what());
  }
}

/// One replica of a step is held back. The steps that need not see its update
/// of the row are made without its contribution, and no other step begins.
TEST(TableConsistency, ALateReplicaHoldsBackTheStepsThatMustSeeItsUpdate) {
  constexpr std::uint64_t steps = 12, blocked = 3;
  constexpr std::uint32_t replicas = 3;
  for (const auto& of_tables :
       {bounded(0), bounded(1), bounded(3), consistency{}}) {
    const bool is_bounded = of_tables.kind == consistency_kind::bounded;
    const auto last =
      is_bounded ? blocked + of_tables.max_staleness : steps - 1;
    SCOPED_TRACE("last step " + std::to_string(last));
    seen_numbers begun, opened;
    std::atomic<bool> is_held = false;
    const auto metrics = on_step([&](std::uint64_t step, const tensor&) {
      begun.add(step);
      if (step == blocked && !is_held.exchange(true))
        opened.wait_for(0);
    });
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 4}};
    cluster_coordinator coordinator{on};
    server_model trained{on,
                         "line",
                         line(),
                         sgd{.learning_rate = 1e-3f},
                         {.loss = "mean_squared_error"}};
    std::jthread opener{[&] {
      begun.wait_for(last);
      // So that a step that the fit schedules too early has begun too.
      execute_others(coordinator);
      EXPECT_FALSE(begun.wait_for(last).contains(last + 1));
      opened.add(0);
    }};
    std::vector<dropped_contribution> dropped;
    trained.fit(coordinator, numbered(steps, replicas),
                {.metrics = metrics,
                 .consistency = with_backups(1),
                 .table_consistency = of_tables,
                 .replicas = replicas,
                 .on_dropped = [&](const dropped_contribution& x) {
                   dropped.push_back(x);
                 }});
    opener.join();
    EXPECT_EQ(trained.steps(), steps);
    EXPECT_EQ(dropped.size(), steps);
    // Each replica of each step has updated the row, the late one too.
    const auto staleness = on.status()[0].staleness;
    EXPECT_EQ(staleness.gradients, replicas * steps);
    EXPECT_GE(staleness.largest, (replicas - 1) * (last - blocked));
    if (is_bounded) {
      EXPECT_LE(staleness.largest,
                replicas * (2 * of_tables.max_staleness + 1) - 1);
    }
  }
}

/// A replica of the last step before a pause is held back.
TEST(TableConsistency, APauseWaitsForTheUpdatesOfLateReplicas) {
  constexpr std::uint64_t steps = 6, before_pause = 4;
  constexpr std::uint32_t replicas = 3;
  for (const auto& of_tables : {bounded(1), consistency{}}) {
    seen_numbers begun, opened;
    std::atomic<bool> is_held = false, is_paused = false;
    const auto metrics = on_step([&](std::uint64_t step, const tensor&) {
      begun.add(step);
      if (step == before_pause - 1 && !is_held.exchange(true))
        opened.wait_for(0);
    });
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 4}};
    cluster_coordinator coordinator{on};
    server_model trained{on,
                         "line",
                         line(),
                         sgd{.learning_rate = 1e-3f},
                         {.loss = "mean_squared_error"}};
    std::jthread opener{[&] {
      begun.wait_for(before_pause - 1);
      execute_others(coordinator);
      EXPECT_FALSE(is_paused);
      opened.add(0);
    }};
    trained.fit(coordinator, numbered(steps, replicas),
                {.metrics = metrics,
                 .pause_steps = before_pause,
                 .on_pause =
                   [&] {
                     is_paused = true;
                     EXPECT_TRUE(coordinator.done());
                     EXPECT_EQ(trained.steps(), before_pause);
                     EXPECT_EQ(on.status()[0].staleness.gradients,
                               replicas * before_pause);
                   },
                 .consistency = with_backups(1),
                 .table_consistency = of_tables,
                 .replicas = replicas});
    opener.join();
    EXPECT_TRUE(is_paused);
  }
}

/// The fit goes on in a model of other servers.
TEST(TableConsistency, AResumedFitOfOneReplicaHasTheBitsOfOneDevice) {
  const auto batches = uneven_clicks();
  for (const update_rule& rule :
       {update_rule{sgd{.learning_rate = 0.1f, .momentum = 0.9f}},
        update_rule{adam{}}}) {
    SCOPED_TRACE(rule.name());
    model alone{small_clicks(), rule, on_clicks};
    alone.fit(batches, {.epochs = 2});
    server_fit_options options{.epochs = 2,
                               .max_steps = batches.size().value() + 1,
                               .consistency = synchronous,
                               .table_consistency = bounded(1),
                               .replicas = 1};
    model between{small_clicks(), rule, on_clicks};
    for (const std::uint32_t count : {2u, 1u}) {
      runtime actors;
      const parameter_server_strategy on{actors, servers(count, 2)};
      cluster_coordinator coordinator{on};
      server_model trained{on, "small", small_clicks(), rule, on_clicks};
      if (options.resume)
        trained.copy_from(between);
      EXPECT_EQ(trained.fit(coordinator, batches, options).end,
                options.resume ? fit_end::done : fit_end::max_steps);
      trained.copy_to(between);
      options.max_steps = 0;
      options.resume = true;
    }
    EXPECT_EQ(between.weights_sha256(), alone.weights_sha256());
  }
}

/// The late replica of the first step has an infinite gradient. Without a
/// consistency of the tables its contribution would have been dropped anyway.
TEST(TableConsistency, ALateReplicaThatIsNotFiniteChangesNoTable) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const auto batches = examples_of_line({1, infinity, 1, 1}, {0, 0, 1, 1}, 2);
  struct test_case {
    std::optional<consistency> of_tables;
    troupe::on_nan on_nan;
  };
  for (const auto& drawn :
       {test_case{consistency{}, on_nan::stop},
        test_case{bounded(1), on_nan::stop}, test_case{{}, on_nan::stop},
        test_case{consistency{}, on_nan::skip},
        test_case{bounded(1), on_nan::skip}}) {
    const bool ends = drawn.of_tables && drawn.on_nan == troupe::on_nan::stop;
    seen_numbers begun;
    const auto metrics = on_step([&](std::uint64_t step, const tensor& found) {
      begun.add(step);
      if (!std::isfinite(found.data<float>()[0]))
        begun.wait_for(1);
    });
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 3}};
    cluster_coordinator coordinator{on};
    server_model trained{on,
                         "line",
                         line(),
                         sgd{.learning_rate = 1e-3f},
                         {.loss = "mean_squared_error"}};
    std::vector<dropped_contribution> dropped;
    const auto text = text_of([&] {
      trained.fit(coordinator, batches,
                  {.metrics = metrics,
                   .on_nan = drawn.on_nan,
                   .consistency = with_backups(1),
                   .table_consistency = drawn.of_tables,
                   .replicas = 2,
                   .on_dropped = [&](const dropped_contribution& x) {
                     dropped.push_back(x);
                   }});
    });
    if (ends) {
      EXPECT_TRUE(text.starts_with(
        "the loss or gradient of replica 1 in step 0 is not finite"))
        << text;
      continue;
    }
    EXPECT_EQ(text, "no error");
    EXPECT_EQ(dropped.size(), 2u);
    for (const auto& x : dropped)
      EXPECT_EQ(x.has_updated_tables, drawn.of_tables && x.step == 1);
    for (const auto x : values_of_line(on, trained))
      EXPECT_TRUE(std::isfinite(x));
    // The finite replicas have updated the row.
    EXPECT_EQ(on.status()[0].staleness.gradients, drawn.of_tables ? 3u : 0u);
  }
}

TEST(TableConsistency, IsRejectedIfTheTablesCannotHaveIt) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model with_table{on, "small", small_clicks(), sgd{}, on_clicks};
  const auto error_of = [&](const consistency& rule,
                            const consistency& of_tables) {
    return text_of([&] {
      with_table.fit(coordinator, uneven_clicks(),
                     {.consistency = rule, .table_consistency = of_tables});
    });
  };
  const std::string remedy = "; leave it out, or give synchronous consistency "
                             "and tables that are asynchronous or bounded";
  EXPECT_EQ(error_of({}, bounded(1)),
            "server_fit_options: table_consistency is bounded with "
            "max_staleness 1, but consistency is asynchronous"
              + remedy);
  EXPECT_EQ(error_of(bounded(2), bounded(1)),
            "server_fit_options: table_consistency is bounded with "
            "max_staleness 1, but consistency is bounded with max_staleness 2"
              + remedy);
  EXPECT_EQ(error_of(bounded(0), synchronous),
            "server_fit_options: table_consistency is synchronous with "
            "backup_workers 0, but consistency is bounded with max_staleness 0"
              + remedy);
  EXPECT_EQ(error_of(synchronous, with_backups(1)),
            "server_fit_options: table_consistency is synchronous with "
            "backup_workers 1, but consistency is synchronous with "
            "backup_workers 0"
              + remedy);
  EXPECT_EQ(error_of(synchronous, {.max_staleness = 1}),
            "server_fit_options: max_staleness is 1; only bounded consistency "
            "has one");
  EXPECT_EQ(error_of(bounded(1), bounded(1)),
            "server_fit_options: table_consistency is bounded with "
            "max_staleness 1, but consistency is bounded with max_staleness 1"
              + remedy);
  EXPECT_EQ(with_table.steps(), 0u);

  server_model without{
    on,
    "dense",
    {.name = "dense", .input = {3}, .layers = models::stack(models::dense{1})},
    sgd{},
    {.loss = "mean_squared_error"}};
  const auto text = text_of([&] {
    without.fit(
      coordinator,
      data::dataset{tensor::zeros({4, 3}), tensor::zeros({4, 1})}.batch(2),
      {.consistency = synchronous, .table_consistency = bounded(1)});
  });
  EXPECT_EQ(text, "server_fit_options: table_consistency is bounded with "
                  "max_staleness 1, but the model \"dense\" has no table; "
                  "leave it out");
}

} // namespace
} // namespace troupe
