#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/parameter_server/server_replica.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Replicas in closures, with three servers and the chief of the coordinator.

namespace troupe {
namespace {

using namespace std::chrono_literals;
using parameter_server::consistency;
using parameter_server::consistency_kind;
using parameter_server::update_factors;
using troupe::test::patience;

constexpr std::int64_t rows = 8;

/// A variable of one element, a sharded one and a table, which replicas train.
struct fixture {
  explicit fixture(std::uint32_t workers)
    : on{actors,
         {.servers = 3,
          .workers = workers,
          .partitioner = parameter_server::fixed_shards_partitioner(2)}},
      scalar{on.make_variable("scalar", tensor::full({}, 5))},
      whole{on.make_variable("whole", tensor::zeros({rows, 2}))},
      table{on.make_table(
        "table",
        {.rows = rows, .row_elements = 1, .initial = initializer{"zeros"}})},
      optimizer{on, sgd{.learning_rate = 1}},
      layout{std::make_shared<const training_layout>(
        std::vector{scalar, whole, table})},
      coordinator{on} {}

  std::uint64_t begin(const consistency& rule, std::uint32_t replicas) {
    const std::vector<consistency> rules(3, rule);
    return on.servers()->begin_training(*layout, rules, replicas,
                                        optimizer.number());
  }
  server_replica replica(std::uint64_t training, std::uint32_t number) const {
    return {*current_closure(), layout, training, number};
  }
  void expect_values(float of_scalar, const std::vector<float>& of_whole,
                     const std::vector<float>& of_table) const {
    EXPECT_EQ(scalar.value().item<float>(), of_scalar);
    EXPECT_TRUE(
      same_bits(whole.value(), tensor::of<float>({rows, 2}, of_whole)));
    EXPECT_TRUE(
      same_bits(table.value(), tensor::of<float>({rows, 1}, of_table)));
  }

  runtime actors;
  parameter_server_strategy on;
  server_variable scalar, whole, table;
  server_optimizer optimizer;
  std::shared_ptr<const training_layout> layout;
  cluster_coordinator coordinator;
};

/// Gradients that depend on what the replica has read: those of the sharded
/// variable are its values and a number, and those of the table are in row
/// `row` and the last one.
parameter_gradients gradients_of(const tensors& read, float number,
                                 std::int64_t row) {
  const auto whole = read.at(1).data<float>();
  std::vector<float> sums;
  for (const auto x : whole)
    sums.push_back(x + number);
  return {tensor::full({}, number), tensor::of<float>({rows, 2}, sums),
          sparse_rows{{rows, 1},
                      tensor::of<std::int64_t>({2}, {row, rows - 1}),
                      tensor::of<float>({2, 1}, {number, 2 * number})}};
}

TEST(ServerReplica, ReadsAndChangesVariablesAndRowsOfTables) {
  fixture f{1};
  const auto training = f.begin({consistency_kind::asynchronous, 0, 0}, 1);
  const auto seen = f.coordinator.schedule([&] {
    auto self = f.replica(training, 0);
    EXPECT_EQ(self.find_step(), 0u);
    const std::array all{
      server_replica::read{0, {}}, server_replica::read{1, {}},
      server_replica::read{2, std::vector<std::int64_t>{7, 1}}};
    auto read = self.pull(0, all);
    self.push(0, gradients_of(read, 2, 1), {false, 0, 0.5F});
    EXPECT_EQ(self.find_step(), 1u);
    self.push(1, {}, {}); // no gradient
    self.push(2, gradients_of(read, 4, 1), {true, 0.5F, 1});
    return self.pull(3, all);
  });
  const auto& read = seen.get();
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].item<float>(), 2);
  EXPECT_TRUE(same_bits(read[1], tensor::full({rows, 2}, -3)));
  EXPECT_TRUE(same_bits(read[2], tensor::of<float>({2, 1}, {-6, -3})));
  f.expect_values(2, std::vector<float>(2 * rows, -3),
                  {0, -3, 0, 0, 0, 0, 0, -6});
}

/// Two replicas, each on a worker. The step after a decision begins with equal
/// parameters, so the result is that of one process.
TEST(ServerReplica, MakesSynchronousStepsThatTheChiefDecides) {
  constexpr std::uint32_t replicas = 2;
  constexpr std::uint64_t steps = 5;
  fixture f{replicas};
  const auto number = f.begin({consistency_kind::synchronous, 0, 0}, replicas);
  caf::scoped_actor self{f.on.servers()->system()};
  const auto router = f.on.servers()->router();
  std::atomic<std::uint64_t> decided = 0;
  lead_training chief{number, replicas, 0, 1};
  chief.factors = [](std::uint64_t, const std::vector<std::uint32_t>& of) {
    return update_factors{false, 0, 1.0F / float(of.size())};
  };
  chief.on_decided = [&](std::uint64_t x) { decided = x; };
  auto led = self->request(router, patience, chief);
  std::vector<remote_value<void>> all;
  for (std::uint32_t r = 0; r < replicas; ++r)
    all.push_back(f.coordinator.schedule_with(
      {.on_report =
         [&, r](const tensors& what) {
           const auto next = what.at(0).item<std::int64_t>();
           caf::anon_send(router, parameter_server::contributed{
                                    r, std::uint64_t(next), number});
         }},
      [&, r](closure_context& context) {
        auto me = f.replica(number, r);
        const std::array reads{server_replica::read{0, {}},
                               server_replica::read{1, {}}};
        for (std::uint64_t step = 0; step < steps; ++step) {
          const auto read = me.pull(step, reads);
          me.push(step, gradients_of(read, float(1 + r), r), {});
          context.report(
            {tensor::of<std::int64_t>({}, {std::int64_t(step + 1)})});
        }
        me.pull(steps, reads); // the last step is decided
      }));
  for (const auto& one : all)
    one.get();
  EXPECT_EQ(decided, steps);
  caf::anon_send(router, atom::stop_v, number);
  led.receive([&](std::uint64_t count) { EXPECT_EQ(count, steps); },
              [](const caf::error& e) { ADD_FAILURE() << caf::to_string(e); });
  float w = 0;
  for (std::uint64_t step = 0; step < steps; ++step)
    w -= ((w + 1) + (w + 2)) * 0.5F;
  f.expect_values(5 - 1.5F * steps, std::vector<float>(2 * rows, w),
                  {-0.5F * steps, -1.0F * steps, 0, 0, 0, 0, 0, -3.0F * steps});
}

TEST(ServerReplica, EndsWhenALaterTrainingHasBegun) {
  fixture f{1};
  const auto training = f.begin({consistency_kind::asynchronous, 0, 0}, 1);
  f.begin({consistency_kind::asynchronous, 0, 0}, 1);
  const auto code = f.coordinator.schedule([&] {
    auto self = f.replica(training, 0);
    try {
      self.push(0, {}, {});
    } catch (const job_error& e) {
      return int(e.code);
    }
    return -1;
  });
  EXPECT_EQ(code.get(), int(ec::superseded));
}

} // namespace
} // namespace troupe
