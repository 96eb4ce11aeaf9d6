#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <caf/scoped_actor.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

// In these tests, servers and their client communicate over real sockets.

namespace troupe {
namespace {

using namespace std::chrono_literals;

using troupe::test::patience;

/// A node that can be a parameter server.
struct plain_node {
  plain_node() {
    register_parameter_server(actors);
    server = std::make_unique<node_server>(
      actors,
      node_server_options{.connection = {.credentials = net::credentials{}}});
  }
  runtime actors;
  std::unique_ptr<node_server> server;
};

parameter_server_options on(const std::vector<plain_node>& nodes,
                            bool shared_memory = true) {
  parameter_server_options out{.workers = 2};
  for (const auto& one : nodes)
    out.nodes.push_back(one.server->address());
  out.partitioner =
    parameter_server::fixed_shards_partitioner(std::int64_t(nodes.size()));
  out.node_connection.connection.credentials = net::credentials{};
  out.node_connection.shared_memory = shared_memory;
  return out;
}

tensor counted(const shape& dims) {
  tensor out{dims};
  const auto xs = out.mutable_data<float>();
  std::iota(xs.begin(), xs.end(), 0.0F);
  return out;
}

class ServersOnNodes : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Tensors, ServersOnNodes, ::testing::Bool(),
                         [](const auto& x) {
                           return x.param ? "SharedMemory" : "Stream";
                         });

TEST_P(ServersOnNodes, HoldLargeVariables) {
  const std::vector<plain_node> nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(nodes, GetParam())};
  // Each part is larger than a tensor in a frame.
  const auto w = strategy.make_variable("w", counted({1000, 100}));
  const auto b = strategy.make_variable("b", tensor::full({}, 3));
  w.assign_add(counted({1000, 100}));
  const auto ids = tensor::of<std::int64_t>({3}, {999, 0, 500});
  w.scatter_add(ids, tensor::full({3, 100}, 1));
  auto expected = counted({1000, 100});
  const auto xs = expected.mutable_data<float>();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const auto row = i / 100;
    xs[i] = 2 * xs[i] + (row == 999 || row == 0 || row == 500 ? 1 : 0);
  }
  EXPECT_TRUE(same_bits(w.value(), expected));
  EXPECT_EQ(w.lookup(ids).data<float>()[200], expected.data<float>()[50'000]);
  EXPECT_EQ(b.value().item<float>(), 3);
  EXPECT_THROW(w.lookup(tensor::of<std::int64_t>({1}, {1000})),
               std::out_of_range);
}

TEST_P(ServersOnNodes, TakePushesAndAnswerPulls) {
  namespace ps = parameter_server;
  const std::vector<plain_node> nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(nodes, GetParam())};
  const auto w = strategy.make_variable("w", counted({1000, 100}));
  const server_optimizer optimizer{strategy, sgd{.learning_rate = 1}};
  const auto& router = strategy.servers()->router();
  const auto request = [&](auto&&... message) {
    return ask<std::uint64_t>(actors.system(), "test", router, patience,
                              std::forward<decltype(message)>(message)...);
  };
  caf::scoped_actor self{actors.system()};
  const auto fail = [](const caf::error& e) {
    ADD_FAILURE() << caf::to_string(e);
  };
  tensor values{{1000, 100}};
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    const auto part = ask<part_table>(actors.system(), "test", router, patience,
                                      shard, atom::info_v)
                        .parts.at(0)
                        .part;
    request(shard, new_training{0}, ps::training{1, 1, {{part, {}}}});
    self
      ->request(router, patience,
                replica_push{shard, 1, {0, 0, 0}, 0, {true, 0.5F, 2}},
                tensors{counted({500, 100})})
      .receive(
        [](ps::push_result x) { EXPECT_EQ(x, ps::push_result::accepted); },
        fail);
    self
      ->request(router, patience, replica_pull{shard, 1, 0, 1, {0}, {0}},
                tensors{})
      .receive(
        [&](const ps::pulled& x, const tensors& parts) {
          EXPECT_EQ(x.next_step, 1u);
          ASSERT_EQ(parts.size(), 1u);
          std::ranges::copy(parts[0].data<float>(),
                            values.mutable_data<float>().begin()
                              + shard * 50'000);
        },
        fail);
  }
  // w - 0.5 * 2 * gradient
  auto expected = tensor::zeros({1000, 100});
  for (auto& x : expected.mutable_data<float>().subspan(50'000))
    x = 50'000;
  EXPECT_TRUE(same_bits(values, expected));
  EXPECT_TRUE(same_bits(w.value(), expected));
}

TEST(ServersOnNodes, CountClosuresOnce) {
  const std::vector<plain_node> nodes(3);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(nodes)};
  const std::vector<server_variable> all{
    strategy.make_variable("x", tensor::full({}, 100)),
    strategy.make_variable("y", tensor::full({}, 0)),
    strategy.make_variable("n", tensor::full({}, 0))};
  cluster_coordinator coordinator{strategy, {.in_flight = 2}};
  const auto number = [](const server_variable& v) {
    return v.value().item<float>();
  };
  constexpr int closures = 200;
  for (int i = 0; i < closures; ++i) {
    coordinator.schedule([&] {
      const auto step = number(all[0]) > number(all[1]) ? 1 : -1;
      all[0].assign_sub(step);
      all[1].assign_add(step);
      all[2].assign_add(1);
    });
    if (i % 20 == 10) {
      ASSERT_TRUE(coordinator.remove_worker(0));
      coordinator.add_worker();
    }
  }
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_EQ(number(all[2]), closures);
  EXPECT_EQ(number(all[0]) + number(all[1]), 100);
}

/// A connection takes few requests at once; the others are sent again.
TEST(ServersOnNodes, TakeManyRequestsAtOnce) {
  const std::vector<plain_node> nodes(1);
  runtime actors;
  auto options = on(nodes);
  options.workers = 8;
  options.partitioner = parameter_server::fixed_shards_partitioner(24);
  const parameter_server_strategy strategy{actors, options};
  const auto x = strategy.make_variable("x", tensor::zeros({24, 2}));
  cluster_coordinator coordinator{strategy, {.in_flight = 4}};
  for (int i = 0; i < 200; ++i)
    coordinator.schedule([&] {
      x.value();
      x.assign_add(1);
    });
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_TRUE(same_bits(x.value(), tensor::full({24, 2}, 200)));
}

TEST(ServersOnNodes, UpdateByOptimizers) {
  const std::vector<plain_node> nodes(2);
  runtime actors;
  const parameter_server_strategy here{actors, {.servers = 1}};
  const parameter_server_strategy there{actors, on(nodes)};
  const tensor gradient = counted({5, 2});
  tensor results[2];
  for (const auto* const at : {&here, &there}) {
    const std::vector<server_variable> w{
      at->make_variable("w", counted({5, 2}))};
    const server_optimizer optimizer{*at, adam{.learning_rate = 0.1F}};
    cluster_coordinator coordinator{*at};
    for (int i = 0; i < 3; ++i)
      coordinator.schedule(
        [&] { optimizer.apply(std::vector<tensor>{gradient}, w); });
    ASSERT_TRUE(coordinator.join_for(patience));
    results[at == &there] = w[0].value();
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_FALSE(same_bits(results[0], counted({5, 2})));
}

/// A27: the loss of a server has a defined outcome.
TEST(ServersOnNodes, TheLossOfAServerIsReported) {
  std::vector<plain_node> nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(nodes)};
  const auto x = strategy.make_variable("x", tensor::full({}, 0));
  cluster_coordinator coordinator{strategy};
  coordinator.schedule([&] { x.assign_add(1); });
  ASSERT_TRUE(coordinator.join_for(patience));
  const auto waits = coordinator.schedule([&](closure_context& self) {
    while (!self.stopped())
      x.value();
  });
  nodes[0].server.reset();
  try {
    coordinator.join();
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::peer_lost) << e.what();
    EXPECT_NE(std::string{e.what()}.find("parameter server 0"),
              std::string::npos)
      << e.what();
  }
  // Cancelled, or it has read from the server that is lost.
  EXPECT_THROW(waits.get(), std::runtime_error);
  EXPECT_THROW(x.value(), job_error);
}

TEST(ServersOnNodes, ANodeWithoutTheRoleIsNamed) {
  runtime other;
  const node_server plain{other,
                          {.connection = {.credentials = net::credentials{}}}};
  runtime actors;
  parameter_server_options options;
  options.nodes = {plain.address()};
  options.node_connection.connection.credentials = net::credentials{};
  try {
    parameter_server_strategy{actors, options};
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::refused) << e.what();
    EXPECT_NE(std::string{e.what()}.find("parameter_server"), std::string::npos)
      << e.what();
  }
}

} // namespace
} // namespace troupe
