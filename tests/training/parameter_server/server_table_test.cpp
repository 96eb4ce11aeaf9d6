#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/protocol/closure.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/ids_of.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/registered_closures.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

using test::text_of;

using troupe::test::patience;

using test::without_secret;

/// Returns a gradient of some rows of a table with 40 rows of 3 elements.
parameter_gradient gradient_of(std::vector<std::int64_t> ids, float first) {
  tensor rows{{shape{std::int64_t(ids.size()), 3}, dtype::float32}};
  for (auto& x : rows.mutable_data<float>())
    x = first = 0.7f - first;
  return sparse_rows{{40, 3}, ids_of(std::move(ids)), rows};
}

const table_options forty{.rows = 40, .row_elements = 3, .seed = 3};

/// A dense variable on one server, and the same gradients, are the oracle.
TEST(ServerTable, HasTheBitsOfADenseVariableOnAnyNumberOfServers) {
  for (const std::uint32_t servers : {1u, 2u, 3u}) {
    for (const update_rule& rule :
         {update_rule{sgd{}}, update_rule{sgd{.momentum = 0.9f}},
          update_rule{adam{}}, update_rule{adagrad{}}, update_rule{ftrl{}}}) {
      SCOPED_TRACE(std::string{rule.name()} + " on " + std::to_string(servers));
      runtime actors;
      const parameter_server_strategy one{actors},
        several{actors, {.servers = servers}};
      const auto table = several.make_table("t", forty);
      EXPECT_TRUE(table.is_table());
      EXPECT_EQ(table.sharding().shards(), servers);
      const auto dense = one.make_variable("t", table.value());
      EXPECT_FALSE(dense.is_table());
      const server_optimizer for_table{several, rule}, for_dense{one, rule};
      // The second one has no row of the first part, if there are several.
      for (const auto& one_step :
           {gradient_of({2, 39, 2, 20}, 0.3f), gradient_of({38, 20}, 0.9f),
            gradient_of({}, 0), gradient_of({0, 1, 2, 3}, -0.2f)}) {
        for_table.apply(std::vector{one_step}, std::vector{table});
        for_dense.apply(std::vector{one_step}, std::vector{dense});
      }
      table.scatter_add(ids_of({5, 5}), tensor::full({2, 3}, 0.5));
      dense.scatter_add(ids_of({5, 5}), tensor::full({2, 3}, 0.5));
      EXPECT_TRUE(same_bits(table.value(), dense.value()));
      const auto ids = ids_of({39, 5, 0, 39, 7});
      EXPECT_TRUE(same_bits(table.lookup(ids), dense.lookup(ids)));
      const auto kept = for_table.state_of(table);
      const auto expected = for_dense.state_of(dense);
      EXPECT_EQ(kept.steps, expected.steps);
      for (std::size_t i = 0; i < expected.slots.size(); ++i)
        EXPECT_TRUE(same_bits(kept.slots[i], expected.slots[i]));
      std::uint64_t rows = 0;
      for (const auto& status : several.status())
        rows += status.rows;
      EXPECT_EQ(rows, 8u); // 0, 1, 2, 3, 5, 20, 38, 39
    }
  }
}

TEST(ServerTable, CanBeLargerThanTheMemory) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  // 8 TiB, if all rows were kept.
  const auto table =
    on.make_table("t", {.rows = std::int64_t{1} << 33, .row_elements = 256});
  const auto last = (std::int64_t{1} << 33) - 1;
  const auto before = table.lookup(ids_of({last}));
  table.scatter_add(ids_of({last}), tensor::full({1, 256}, 1));
  EXPECT_FALSE(same_bits(table.lookup(ids_of({last})), before));
  EXPECT_LT(on.status()[0].bytes + on.status()[1].bytes, 3000u);
  EXPECT_THROW(table.value(), job_error);
  EXPECT_THROW(table.lookup(ids_of({last + 1})), std::out_of_range);
  EXPECT_THROW(table.lookup(ids_of({-1})), std::out_of_range);
}

TEST(ServerTable, IsFoundByNameAndHasInitialValuesOfItsOwn) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  const auto a = on.make_table("a", forty), b = on.make_table("b", forty);
  EXPECT_FALSE(same_bits(a.value(), b.value()));
  const auto found = on.variable("a");
  EXPECT_TRUE(found.is_table());
  EXPECT_TRUE(same_bits(found.value(), a.value()));
  runtime more;
  const parameter_server_strategy again{more, {.servers = 3}};
  EXPECT_TRUE(same_bits(again.make_table("a", forty).value(), a.value()));
}

TEST(ServerTable, TakesTheRulesOfItsOptions) {
  runtime actors;
  const parameter_server_strategy on{actors};
  const server_optimizer optimizer{on, sgd{.learning_rate = 1}};
  const auto table = on.make_table("t", {.rows = 40,
                                         .row_elements = 3,
                                         .initial = initializer{"ones"},
                                         .min_touches = 2,
                                         .max_idle_changes = 3});
  const sparse_rows gradient{{40, 3}, ids_of({7}), tensor::full({1, 3}, 1)};
  const auto step = [&] {
    optimizer.apply(std::vector<parameter_gradient>{gradient},
                    std::vector{table});
  };
  const auto value = [&] { return table.lookup(ids_of({7})).data<float>()[0]; };
  step();
  EXPECT_EQ(value(), 1);
  step();
  EXPECT_EQ(value(), 0);
  for (int i = 0; i < 3; ++i)
    table.scatter_add(ids_of({8}), tensor::full({1, 3}, 1));
  EXPECT_EQ(value(), 1);
}

/// A change of one row can drop another one.
TEST(ServerTable, AClosureReadsTheRowsThatItsChangesKeep) {
  runtime actors;
  const parameter_server_strategy on{actors};
  const auto made = on.make_table("t", {.rows = 2,
                                        .row_elements = 1,
                                        .initial = initializer{"zeros"},
                                        .max_idle_changes = 2});
  cluster_coordinator coordinator{on};
  for (const auto& table : {made, on.variable("t")}) {
    const auto seen = coordinator.schedule([&table] {
      for (const std::int64_t row : {0, 1, 1})
        table.scatter_add(ids_of({row}), tensor::full({1, 1}, 1));
      return table.value().data<float>()[0];
    });
    EXPECT_EQ(seen.get(), 0);
    coordinator.join();
    EXPECT_EQ(made.value().data<float>()[0], 0);
    EXPECT_GT(made.value().data<float>()[1], 0);
  }
}

TEST(ServerTable, ReadsInAClosureSeeItsChanges) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  const server_optimizer optimizer{on, sgd{.learning_rate = 1}};
  const auto table = on.make_table(
    "t", {.rows = 40, .row_elements = 3, .initial = initializer{"zeros"}});
  cluster_coordinator coordinator{on};
  const auto sum_of = [&](const tensor& rows) {
    float sum = 0;
    for (const auto x : rows.data<float>())
      sum += x;
    return sum;
  };
  const auto seen = coordinator.schedule([&] {
    table.scatter_add(ids_of({3, 30}), tensor::full({2, 3}, 1));
    const sparse_rows gradient{{40, 3}, ids_of({3}), tensor::full({1, 3}, 2)};
    optimizer.apply(std::vector<parameter_gradient>{gradient},
                    std::vector{table});
    const auto some = sum_of(table.lookup(ids_of({3, 30, 31})));
    table.assign_add(1);
    return some + 100 * sum_of(table.lookup(ids_of({3, 31})))
           + 10'000 * sum_of(table.value());
  });
  ASSERT_TRUE(coordinator.join_for(patience));
  // -1 and 1, then 0 and 1, then 40 rows of 1 with the changes before.
  EXPECT_EQ(seen.get(), 0 + 100 * 3 + 10'000 * 3 * 40.f);
  EXPECT_EQ(sum_of(table.value()), 3 * 40.f);
}

/// Notes what a closure asks for and changes. All values are zero.
class recording_environment : public closure_environment {
public:
  std::vector<tensor> pull(std::span<const read> parts) override {
    std::vector<tensor> out;
    for (const auto& one : parts) {
      reads.push_back(numbers(one.rows));
      out.push_back(tensor::zeros({one.rows.dims().front(), 3}));
    }
    return out;
  }
  std::vector<step_values> pull_step(std::span<const step_pull>) override {
    return {};
  }
  std::vector<step_values> push_step(std::span<const step_push>,
                                     std::span<const step_pull>) override {
    return {};
  }
  void report(tensors) override {}
  void change(const address&, parameter_server::part_change one) override {
    changes.push_back(one.rows);
  }
  bool is_stopped() const override { return false; }
  const shared_attempt& counted_attempt() const override { return attempt_; }
  void at_failure(std::function<void()>) override {}

  static std::vector<std::int64_t> numbers(const tensor& x) {
    const auto all = x.data<std::int64_t>();
    return {all.begin(), all.end()};
  }

  std::vector<std::vector<std::int64_t>> reads; ///< By part.
  std::vector<parameter_server::row_list> changes;

private:
  shared_attempt attempt_;
};

/// Two servers have 20 rows each.
TEST(ServerTable, ARowThatOccursOftenIsAskedForAndSentOnce) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  const server_optimizer optimizer{on, sgd{}};
  const auto table = on.make_table("t", forty);
  using list = std::vector<std::int64_t>;
  recording_environment closure;
  const closure_scope scope{closure};
  table.lookup(ids_of({5, 39, 5, 5, 0, 39}));
  EXPECT_EQ(closure.reads, (std::vector<list>{{0, 5}, {19}}));
  const sparse_rows gradient{
    {40, 3},
    ids_of({5, 39, 5}),
    tensor::of<float>({3, 3}, {1e8f, 1, 1, 2, 2, 2, 1, 1, 1})};
  optimizer.apply(std::vector<parameter_gradient>{gradient},
                  std::vector{table});
  ASSERT_EQ(closure.changes.size(), 2u);
  EXPECT_EQ(closure.numbers(closure.changes[0].indices()), list{5});
  EXPECT_TRUE(same_bits(closure.changes[0].rows(),
                        tensor::of<float>({1, 3}, {1e8f, 2, 2})));
  EXPECT_EQ(closure.numbers(closure.changes[1].indices()), list{19});
}

TEST(ServerTable, AnErrorSaysThatAServerHasReachedItsLimit) {
  runtime actors;
  const parameter_server_strategy on{actors,
                                     {.servers = 1, .max_server_bytes = 3'000}};
  const auto table = on.make_table("t", {.rows = 1'000, .row_elements = 16});
  std::vector<std::int64_t> many(100);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = std::int64_t(i);
  const auto fill = [&] {
    table.scatter_add(ids_of(many), tensor::full({100, 16}, 1));
  };
  const auto expected = "raise max_server_bytes or use more servers";
  EXPECT_NE(text_of(fill).find(expected), std::string::npos) << text_of(fill);
  EXPECT_NE(text_of([&] {
              on.make_variable("v", tensor::zeros({1'000}));
            }).find(expected),
            std::string::npos);
  EXPECT_EQ(on.status()[0].rows, 0u);
  cluster_coordinator coordinator{on};
  coordinator.schedule(fill);
  EXPECT_NE(text_of([&] { coordinator.join_for(patience); }).find(expected),
            std::string::npos);
  coordinator.schedule([&] {
    table.scatter_add(ids_of({4, 5}), tensor::full({2, 16}, 1));
  });
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_EQ(on.status()[0].rows, 2u);
  // The slots count too: 2 rows with 2 slots fit, 20 do not.
  const server_optimizer optimizer{on, adam{}};
  const auto train = [&](std::int64_t rows) {
    const sparse_rows gradient{{1'000, 16},
                               ids_of({many.begin(), many.begin() + rows}),
                               tensor::full({rows, 16}, 1)};
    optimizer.apply(std::vector<parameter_gradient>{gradient},
                    std::vector{table});
  };
  EXPECT_NE(text_of([&] { train(20); }).find(expected), std::string::npos);
  train(2);
  EXPECT_EQ(on.status()[0].rows, 4u);
}

TEST(ServerTable, RejectsWhatDoesNotFit) {
  runtime actors;
  const parameter_server_strategy on{actors};
  EXPECT_EQ(text_of([&] { on.make_table("t", {.row_elements = 1}); }),
            "table_options: rows of \"t\" is 0; give at least 1");
  EXPECT_EQ(text_of([&] { on.make_table("t", {.rows = 1}); }),
            "table_options: row_elements of \"t\" is 0; give at least 1");
  EXPECT_EQ(text_of([&] {
              on.make_table(
                "t",
                {.rows = 1, .row_elements = 1, .max_idle_changes = 1u << 31});
            }),
            "max_idle_changes is 2147483648; give at most 1073741824");
  const auto table = on.make_table("t", forty);
  EXPECT_EQ(text_of([&] { on.make_table("t", forty); }),
            "there is a variable \"t\" already");
  const server_optimizer optimizer{on, sgd{}};
  EXPECT_EQ(text_of([&] {
              optimizer.apply(std::vector<tensor>{tensor::zeros({40, 3})},
                              std::vector{table});
            }),
            "apply: variable \"t\" is a table, and needs a sparse gradient "
            "(tape::sparse_gradients)");
}

/// The rows of a table on nodes are changed by workers on nodes.
TEST(ServerTable, IsChangedByWorkersInOtherProcesses) {
  struct node {
    node() {
      register_parameter_server(actors);
      register_closures(
        actors, "rows",
        [](const parameter_server_strategy& servers, std::uint32_t) {
          const auto table = servers.variable("t");
          const server_optimizer optimizer{servers, sgd{.learning_rate = 1}};
          return registered_closures{
            {"step", [=](closure_context&, const tensors& inputs) -> tensors {
               const sparse_rows gradient{
                 {40, 3},
                 inputs[0],
                 tensor::full({inputs[0].dims().front(), 3}, -1)};
               optimizer.apply(std::vector<parameter_gradient>{gradient},
                               std::vector{table});
               return {table.lookup(inputs[0])};
             }}};
        },
        without_secret());
      server = std::make_unique<node_server>(
        actors, node_server_options{.connection = without_secret().connection});
    }
    runtime actors;
    std::unique_ptr<node_server> server;
  };
  const std::vector<node> nodes(2);
  runtime actors;
  parameter_server_options options;
  for (const auto& one : nodes)
    options.nodes.push_back(one.server->address());
  options.node_connection = without_secret();
  const parameter_server_strategy on{actors, options};
  const auto table = on.make_table(
    "t", {.rows = 40, .row_elements = 3, .initial = initializer{"zeros"}});
  const server_optimizer optimizer{on, sgd{.learning_rate = 1}};
  cluster_coordinator coordinator{
    on,
    {.nodes = {nodes[0].server->address(), nodes[1].server->address()},
     .closures = "rows",
     .node_connection = without_secret()}};
  for (int i = 0; i < 20; ++i)
    coordinator.schedule_named("step", {ids_of({3, 39, 3})});
  ASSERT_TRUE(coordinator.join_for(patience));
  const auto rows = table.lookup(ids_of({3, 39, 0}));
  EXPECT_TRUE(same_bits(
    rows, tensor::of<float>({3, 3}, {40, 40, 40, 20, 20, 20, 0, 0, 0})));
}

} // namespace
} // namespace troupe
