#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/number_of.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// In these tests, the copies of servers and their client communicate over real
// sockets. Processes that are killed are in scripts/closure-runs.py.

namespace troupe {
namespace {

using namespace std::chrono_literals;

using troupe::test::patience;

using test::make_nodes, test::on, test::server_node;

class CopiesOfServers : public ::testing::Test {
protected:
  CopiesOfServers() { log_from(log_level::error); } // losses are warnings
  ~CopiesOfServers() override { log_from(log_level::warning); }
};

TEST_F(CopiesOfServers, KeepAllStateWhenOneNodeAfterTheOtherIsLost) {
  auto all = make_nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const std::vector<server_variable> parameters{
    strategy.make_variable("w", tensor::full({300, 100}, 1)),
    strategy.make_variable("b", tensor::full({100}, 0))};
  const server_optimizer optimizer{strategy, adam{.learning_rate = 0.5f}};
  const std::vector<tensor> gradients{tensor::full({300, 100}, 0.5),
                                      tensor::full({100}, -1)};
  optimizer.apply(gradients, parameters);
  for (int loss = 0; loss < 3; ++loss) {
    ASSERT_TRUE(strategy.wait_for_copies(patience));
    const auto before = parameters[0].value();
    all.erase(all.begin());
    EXPECT_TRUE(same_bits(parameters[0].value(), before)) << loss;
    all.push_back(std::make_unique<server_node>());
    strategy.add_server(all.back()->server->address());
    optimizer.apply(gradients, parameters);
  }
  // The bits are those of servers that were never lost.
  const parameter_server_strategy alone{actors};
  const std::vector<server_variable> expected{
    alone.make_variable("w", tensor::full({300, 100}, 1)),
    alone.make_variable("b", tensor::full({100}, 0))};
  const server_optimizer other{alone, adam{.learning_rate = 0.5f}};
  for (int i = 0; i < 4; ++i)
    other.apply(gradients, expected);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same_bits(parameters[i].value(), expected[i].value())) << i;
}

/// A process that is started again has the address of the lost one.
TEST_F(CopiesOfServers, CanBeAddedAtTheAddressOfALostNode) {
  auto all = make_nodes(2);
  runtime actors, others;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto x = strategy.make_variable("x", tensor::full({}, 0));
  const parameter_server_strategy worker{std::make_shared<parameter_servers>(
    others, on(all, 2), strategy.servers()->job(), 2)};
  const auto y = worker.variable("x");
  for (int loss = 0; loss < 4; ++loss) { // also of the one that was promoted
    ASSERT_TRUE(strategy.wait_for_copies(patience));
    EXPECT_EQ(strategy.copies().in_sync, 2u) << loss;
    const auto address = all[0]->address();
    EXPECT_THROW(strategy.add_server(address), std::invalid_argument);
    all.erase(all.begin());
    x.assign_add(1);
    EXPECT_EQ(number(y), 2 * loss + 1);
    EXPECT_LT(strategy.copies().in_sync, 2u) << loss;
    EXPECT_EQ(strategy.copies().lost_nodes, std::uint64_t(loss) + 1);
    all.push_back(std::make_unique<server_node>(address));
    strategy.add_server(address);
    y.assign_add(1);
    EXPECT_EQ(number(x), 2 * loss + 2);
  }
}

TEST_F(CopiesOfServers, AreMadeOnANodeThatWasStartedAgain) {
  auto all = make_nodes(2);
  runtime actors;
  auto options = on(all, 2);
  options.reconnect_interval = 1ms;
  const parameter_server_strategy strategy{actors, options};
  const auto x = strategy.make_variable("x", tensor::full({}, 0));
  for (int loss = 0; loss < 4; ++loss) {
    ASSERT_TRUE(strategy.wait_for_copies(patience));
    const auto address = all[0]->address();
    all.erase(all.begin());
    x.assign_add(1);
    all.push_back(std::make_unique<server_node>(address));
    const auto end = std::chrono::steady_clock::now() + patience;
    while (strategy.copies().in_sync < 2) // nothing adds the node
      ASSERT_LT(std::chrono::steady_clock::now(), end);
    EXPECT_EQ(strategy.copies().lost_nodes, std::uint64_t(loss) + 1);
  }
  EXPECT_EQ(number(x), 4);
}

/// Clients could find the copies without a state.
TEST_F(CopiesOfServers, AreMadeOnceInAProcess) {
  const auto all = make_nodes(2);
  runtime actors, others;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto x = strategy.make_variable("x", tensor::full({}, 5));
  for (const auto& one : all) {
    const auto& address = one->address();
    const auto port = address.substr(address.find(':'));
    EXPECT_THROW(strategy.add_server("localhost" + port), job_error);
  }
  auto options = on(all, 2);
  options.timeout = 10s;
  const parameter_server_strategy worker{std::make_shared<parameter_servers>(
    others, options, strategy.servers()->job(), 2)};
  EXPECT_EQ(number(worker.variable("x")), 5);
}

TEST_F(CopiesOfServers, CountClosuresOnceWhileNodesAreLost) {
  auto all = make_nodes(3);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto x = strategy.make_variable("x", tensor::full({}, 100)),
             y = strategy.make_variable("y", tensor::full({}, 0)),
             n = strategy.make_variable("n", tensor::full({}, 0));
  cluster_coordinator coordinator{strategy, {.in_flight = 2}};
  constexpr int closures = 300;
  for (int i = 0; i < closures; ++i) {
    coordinator.schedule([&] {
      const auto step = number(x) > number(y) ? 1 : -1;
      x.assign_sub(step);
      y.assign_add(step);
      n.assign_add(1);
    });
    if (i % 100 == 50) {
      ASSERT_TRUE(strategy.wait_for_copies(patience));
      all.erase(all.begin()); // while closures are executed
      all.push_back(std::make_unique<server_node>());
      strategy.add_server(all.back()->server->address());
    }
  }
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_EQ(number(n), closures);
  EXPECT_EQ(number(x) + number(y), 100);
}

TEST_F(CopiesOfServers, AreFoundByAClientThatHasKnownOnlyLostNodes) {
  auto all = make_nodes(2);
  runtime actors, others;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto x = strategy.make_variable("x", tensor::full({}, 5));
  // As a worker on a node, which the program of the coordinator tells nothing.
  const parameter_server_strategy worker{std::make_shared<parameter_servers>(
    others, on(all, 2), strategy.servers()->job(), 2)};
  const auto y = worker.variable("x");
  EXPECT_EQ(number(y), 5);
  for (int i = 0; i < 2; ++i) { // it is idle meanwhile
    all.push_back(std::make_unique<server_node>());
    strategy.add_server(all.back()->server->address());
    ASSERT_TRUE(strategy.wait_for_copies(patience));
    all.erase(all.begin());
    ASSERT_TRUE(strategy.wait_for_copies(patience));
  }
  x.assign_add(1);
  EXPECT_EQ(number(y), 6);
  y.assign_add(1);
  EXPECT_EQ(number(x), 7);
}

TEST_F(CopiesOfServers, EndTheirClosuresWhenAllCopiesAreLost) {
  auto all = make_nodes(2);
  runtime actors;
  auto options = on(all, 2);
  const parameter_server_strategy strategy{actors, options};
  const auto x = strategy.make_variable("x", tensor::full({}, 0));
  cluster_coordinator coordinator{strategy};
  all.clear();
  const auto call = [&] {
    coordinator.schedule([&] { x.assign_add(1); });
    coordinator.join();
  };
  try {
    call();
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_NE(std::string{e.what()}.find("no process has a copy"),
              std::string::npos)
      << e.what();
  }
}

TEST_F(CopiesOfServers, AnswerAWrongRequestWithItsError) {
  const auto all = make_nodes(2);
  runtime actors;
  const parameter_server_strategy strategy{actors, on(all, 2)};
  const auto x = strategy.make_variable("x", tensor::full({2}, 0));
  EXPECT_THROW(x.assign_add(tensor::full({3}, 1)), std::invalid_argument);
  EXPECT_THROW(strategy.variable("z"), std::invalid_argument);
  EXPECT_EQ(strategy.status().size(), 2u);
}

TEST_F(CopiesOfServers, NeedNodes) {
  runtime actors;
  const auto problem = [&](const parameter_server_options& how) {
    try {
      const parameter_server_strategy strategy{actors, how};
    } catch (const std::invalid_argument& e) {
      return std::string{e.what()};
    }
    return std::string{"none"};
  };
  EXPECT_EQ(problem({.copies = 2}),
            "parameter_server_options: copies is 2, but servers that are "
            "threads of this process end with it; give nodes");
  EXPECT_EQ(problem({.copies = 0}),
            "parameter_server_options: copies is 0; give at least 1");
  EXPECT_EQ(problem(on(make_nodes(2), 3)),
            "parameter_server_options: copies is 3, but there are 2 nodes; "
            "give at least as many nodes");
  const parameter_server_strategy alone{actors};
  EXPECT_THROW(alone.add_server("127.0.0.1:1"), std::logic_error);
  EXPECT_THROW(alone.copies(), std::logic_error);
  EXPECT_EQ(problem({.reconnect_interval = -1ms}),
            "parameter_server_options: reconnect_interval is negative or above "
            "24 hours");
  EXPECT_TRUE(alone.wait_for_copies(0ms));
}

} // namespace
} // namespace troupe
