#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/ids_of.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <caf/actor_cast.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Tables on servers with copies. The servers are nodes of this process; nodes
// that are processes are in tests/apps/train_servers_test.cpp.

namespace troupe {
namespace {

using namespace std::chrono_literals;

using test::make_nodes, test::on, test::server_node, test::server_nodes;

using troupe::test::patience;

/// Changes a table in steps. What a step changes follows from its number.
class table_program {
public:
  explicit table_program(const parameter_server_strategy& on)
    : table_{on.make_table("t", {.rows = 60,
                                 .row_elements = 3,
                                 .initial = initializer{"normal"},
                                 .seed = 3,
                                 .min_touches = 2,
                                 .max_idle_changes = 25})},
      adam_{on, adam{.learning_rate = 0.1f}},
      sgd_{on, sgd{.learning_rate = 0.1f, .momentum = 0.5f}} {}

  void step(int i) const {
    const std::int64_t n = i;
    const auto ids = ids_of({n * 3 % 12, (n * 5 + 1) % 12, n * n % 60, 7});
    tensor rows{{shape{4, 3}, dtype::float32}};
    float next = 0.1f * float(i % 11);
    for (auto& x : rows.mutable_data<float>())
      x = next = 0.7f - next;
    const sparse_rows gradient{table_.spec().dims, ids, rows};
    const auto synchronous_step = std::uint64_t(i / 5);
    if (i % 5 == 1 || i % 5 == 2)
      sgd_.contribute(gradient, table_, synchronous_step,
                      std::uint32_t(i % 5 - 1));
    else if (i % 5 == 4)
      sgd_.apply_contributions(table_, synchronous_step, {0, 1});
    else if (i % 7 == 6)
      table_.scatter_add(ids, rows);
    else
      adam_.apply(std::vector<parameter_gradient>{gradient},
                  std::vector{table_});
  }

  /// Returns the rows, and the slots of both optimizers.
  std::vector<tensor> state() const {
    std::vector<tensor> out{table_.value()};
    for (const auto* one : {&adam_, &sgd_}) {
      auto state = one->state_of(table_);
      out.push_back(tensor::full({}, double(state.steps)));
      for (auto& slot : state.slots)
        out.push_back(std::move(slot));
    }
    return out;
  }

private:
  server_variable table_;
  server_optimizer adam_, sgd_;
};

/// Compares a table with one whose servers have no copies and were never lost.
void expect_undisturbed(const table_program& found, int steps) {
  runtime actors;
  const parameter_server_strategy alone{actors, {.servers = 2}};
  const table_program expected{alone};
  for (int i = 0; i < steps; ++i)
    expected.step(i);
  const auto a = found.state(), b = expected.state();
  ASSERT_EQ(a.size(), 1u + 3 + 2);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same_bits(a[i], b[i]))
      << "tensor " << i << " after " << steps << " steps";
}

/// Makes steps in a thread, until it is told to end.
class endless_steps {
public:
  explicit endless_steps(std::function<void(int)> step)
    : thread_{[this, step = std::move(step)] { run(step); }} {}
  ~endless_steps() { end(); }

  /// Waits until some more steps are made.
  bool wait_for(int more) {
    std::unique_lock hold{lock_};
    const auto until = made_ + more;
    return changed_.wait_for(hold, patience, [&] {
      return made_ >= until || !problem_.empty();
    }) && problem_.empty();
  }

  /// Returns the number of steps that were made.
  int end() {
    {
      const std::lock_guard hold{lock_};
      has_ended_ = true;
    }
    if (thread_.joinable())
      thread_.join();
    return made_;
  }

  std::string problem() {
    const std::lock_guard hold{lock_};
    return problem_;
  }

private:
  void run(const std::function<void(int)>& step) {
    for (int i = 0;; ++i) {
      std::string problem;
      try {
        step(i);
      } catch (const std::exception& e) {
        problem = e.what();
      }
      const std::lock_guard hold{lock_};
      problem_ = std::move(problem);
      made_ += problem_.empty() ? 1 : 0;
      changed_.notify_all();
      if (has_ended_ || !problem_.empty())
        return;
    }
  }

  std::mutex lock_; // guards those below
  std::condition_variable changed_;
  int made_ = 0;
  bool has_ended_ = false;
  std::string problem_;
  std::thread thread_;
};

/// Ends the node whose copy of server 0 serves.
void lose_primary(const parameter_server_strategy& strategy,
                  server_nodes& all) {
  const auto& servers = *strategy.servers();
  const auto views = ask<copy_table>(
    servers.system(), "the supervisor of copies",
    caf::actor_cast<copy_supervisor_actor>(servers.supervisor()), patience,
    atom::info_v);
  const auto primary = views.shards.at(0).primary;
  const auto lost = std::ranges::find_if(
    all, [&](const auto& one) { return one->actors.incarnation() == primary; });
  ASSERT_NE(lost, all.end());
  all.erase(lost);
}

void add_node(const parameter_server_strategy& strategy, server_nodes& all) {
  all.push_back(std::make_unique<server_node>());
  strategy.add_server(all.back()->address());
}

class CopiesOfTables : public ::testing::Test {
protected:
  CopiesOfTables() { log_from(log_level::error); } // losses are warnings
  ~CopiesOfTables() override { log_from(log_level::warning); }
};

TEST_F(CopiesOfTables, HaveTheBitsOfATableThatWasNeverLost) {
  auto all = make_nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const table_program program{strategy};
  endless_steps steps{[&](int i) { program.step(i); }};
  for (int loss = 0; loss < 3; ++loss) {
    ASSERT_TRUE(strategy.wait_for_copies(patience));
    ASSERT_TRUE(steps.wait_for(20)) << steps.problem();
    lose_primary(strategy, all); // while steps are made
    ASSERT_TRUE(steps.wait_for(20)) << steps.problem();
    add_node(strategy, all);
  }
  ASSERT_TRUE(strategy.wait_for_copies(patience));
  ASSERT_TRUE(steps.wait_for(20)) << steps.problem();
  const auto made = steps.end();
  EXPECT_EQ(steps.problem(), "");
  EXPECT_EQ(strategy.copies().lost_nodes, 3u);
  expect_undisturbed(program, made);
}

/// The copy that serves in the end has got all that it knows in snapshots:
/// rows, slots, gradients of rows not yet kept, and contributions that wait.
TEST_F(CopiesOfTables, AreWholeInASnapshot) {
  auto all = make_nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const table_program program{strategy};
  constexpr int before = 43, after = 90;
  static_assert(before % 5 == 3); // two contributions wait
  for (int i = 0; i < before; ++i)
    program.step(i);
  all.erase(all.begin());
  add_node(strategy, all);
  ASSERT_TRUE(strategy.wait_for_copies(patience));
  all.erase(all.begin());
  expect_undisturbed(program, before);
  EXPECT_EQ(strategy.copies().lost_nodes, 2u);
  for (int i = before; i < after; ++i)
    program.step(i);
  expect_undisturbed(program, after);
}

/// The first gradient of each row is only counted, whichever it is.
TEST_F(CopiesOfTables, CountEachClosureOnceWhilePrimariesAreLost) {
  auto all = make_nodes(3);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto zeros = initializer{"zeros"};
  const auto trained = strategy.make_table("trained", {.rows = 10,
                                                       .row_elements = 2,
                                                       .initial = zeros,
                                                       .min_touches = 2}),
             added = strategy.make_table(
               "added", {.rows = 10, .row_elements = 2, .initial = zeros});
  const server_optimizer optimizer{strategy, sgd{.learning_rate = 1}};
  cluster_coordinator coordinator{strategy, {.in_flight = 2}};
  constexpr int closures = 300; // 60 for each row, as 6 i + 3 is odd
  for (int i = 0; i < closures; ++i) {
    coordinator.schedule([&, i] {
      const auto ids = ids_of({i % 10, (i * 7 + 3) % 10});
      const auto rows = trained.lookup(ids);
      const sparse_rows gradient{{10, 2}, ids, tensor::full({2, 2}, -1)};
      optimizer.apply(std::vector<parameter_gradient>{gradient},
                      std::vector{trained});
      added.scatter_add(ids, tensor::full({2, 2}, 1));
    });
    if (i % 100 == 50) {
      ASSERT_TRUE(strategy.wait_for_copies(patience));
      lose_primary(strategy, all); // while closures are executed
      add_node(strategy, all);
    }
  }
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_EQ(strategy.copies().lost_nodes, 3u);
  EXPECT_TRUE(same_bits(added.value(), tensor::full({10, 2}, 60)));
  EXPECT_TRUE(same_bits(trained.value(), tensor::full({10, 2}, 59)));
}

/// Returns the text of the error of a call, or "no error".
std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(CopiesOfTables, HaveALimitOfTheirMemory) {
  auto all = make_nodes(2);
  runtime actors;
  auto options = on(all, 2);
  options.max_server_bytes = 3'000;
  const parameter_server_strategy strategy{actors, options};
  const auto expected = "its limit is 3000; raise max_server_bytes";
  // The first command of a client can be rejected, and the next ones count.
  EXPECT_NE(text_of([&] {
              strategy.make_variable("v", tensor::zeros({1'000}));
            }).find(expected),
            std::string::npos);
  const auto table =
    strategy.make_table("t", {.rows = 1'000, .row_elements = 16});
  const auto add = [&](std::int64_t rows) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < rows; ++i)
      ids.push_back(i % 2 * 500 + i / 2); // half of them on each server
    table.scatter_add(ids_of(ids), tensor::full({rows, 16}, 1));
  };
  cluster_coordinator coordinator{strategy};
  const auto expect_limit = [&](std::int64_t rows_that_fit) {
    SCOPED_TRACE(rows_that_fit);
    EXPECT_NE(text_of([&] { add(100); }).find(expected), std::string::npos);
    coordinator.schedule(add, 100);
    EXPECT_NE(text_of([&] { coordinator.join_for(patience); }).find(expected),
              std::string::npos);
    coordinator.schedule(add, rows_that_fit);
    ASSERT_TRUE(coordinator.join_for(patience));
    for (const auto& server : strategy.status())
      EXPECT_EQ(server.rows, std::uint64_t(rows_that_fit / 2));
  };
  expect_limit(2);
  ASSERT_TRUE(strategy.wait_for_copies(patience));
  lose_primary(strategy, all);
  expect_limit(4); // the copy that serves now keeps the same limit
}

} // namespace
} // namespace troupe
