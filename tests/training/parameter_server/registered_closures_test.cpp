#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/number_of.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/registered_closures.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// In these tests, servers, workers and their coordinator communicate over real
// sockets.

namespace troupe {
namespace {

using namespace std::chrono_literals;

using troupe::test::becomes_true;
using troupe::test::patience;

using test::without_secret;

/// Executions that have begun in this process.
std::atomic<int> executions{0};

registered_closures make_closures(const parameter_server_strategy& servers,
                                  std::uint32_t worker) {
  const auto number = [](const server_variable& x) {
    return x.value().item<float>();
  };
  const auto x = servers.variable("x"), y = servers.variable("y"),
             n = servers.variable("n");
  const std::vector<server_variable> all{x};
  const server_optimizer optimizer{servers, sgd{.learning_rate = 1}};
  return {
    {"move",
     [=](closure_context& self, const tensors& inputs) -> tensors {
       ++executions;
       const auto step = number(x) > number(y) ? 1 : -1;
       x.assign_sub(step);
       y.assign_add(step);
       n.assign_add(1);
       return {inputs.at(0) * 2.0, tensor::full({}, self.worker())};
     }},
    {"descend",
     [=](closure_context&, const tensors& inputs) -> tensors {
       optimizer.apply(inputs, all);
       return {};
     }},
    {"report",
     [=](closure_context& self, const tensors&) -> tensors {
       for (int i = 0; i < 3; ++i)
         self.report({tensor::full({}, i), tensor::full({2}, 7)});
       x.value(); // others are told before the end
       self.report({tensor::full({}, 3)});
       return {};
     }},
    {"throw",
     [=](closure_context&, const tensors&) -> tensors {
       x.assign_add(100);
       throw std::runtime_error("worker " + std::to_string(worker)
                                + " has thrown");
     }},
    {"endless",
     [=](closure_context&, const tensors&) -> tensors {
       ++executions;
       for (;;)
         x.value();
     }},
  };
}

/// The closure "length" returns the length of the arguments.
registered_closures repeat(const parameter_server_strategy&, std::uint32_t,
                           const std::string& arguments) {
  return {{"length", [=](closure_context&, const tensors&) -> tensors {
             return {tensor::full({}, double(arguments.size()))};
           }}};
}

registered_closures throw_number(const parameter_server_strategy&,
                                 std::uint32_t) {
  throw 7;
}

/// A node that can be a server and a worker.
struct test_node {
  explicit test_node(const std::string& listen = "127.0.0.1:0") {
    register_parameter_server(actors);
    register_closures(actors, "test", make_closures, without_secret());
    register_closures(actors, "repeat", configured_closures_factory{repeat},
                      without_secret());
    register_closures(actors, "throws", closures_factory{throw_number},
                      without_secret());
    server = std::make_unique<node_server>(
      actors, node_server_options{.listen = listen,
                                  .connection = without_secret().connection});
  }
  std::string address() const { return server->address(); }

  runtime actors;
  std::unique_ptr<node_server> server;
};

/// Two servers and two workers on nodes.
struct fixture {
  explicit fixture(std::uint32_t in_flight = 1)
    : strategy{actors,
               {.nodes = {servers[0].address(), servers[1].address()},
                .node_connection = without_secret()}},
      optimizer{strategy, sgd{.learning_rate = 1}},
      how{.in_flight = in_flight,
          .nodes = {workers[0]->address(), workers[1]->address()},
          .closures = "test",
          .node_connection = without_secret()} {
    x = strategy.make_variable("x", tensor::full({}, 100));
    y = strategy.make_variable("y", tensor::full({}, 0));
    n = strategy.make_variable("n", tensor::full({}, 0));
    coordinator = std::make_unique<cluster_coordinator>(strategy, how);
    executions = 0;
  }

  std::vector<test_node> servers{2};
  std::vector<std::unique_ptr<test_node>> workers = [] {
    std::vector<std::unique_ptr<test_node>> out;
    out.push_back(std::make_unique<test_node>());
    out.push_back(std::make_unique<test_node>());
    return out;
  }();
  runtime actors;
  parameter_server_strategy strategy;
  server_optimizer optimizer;
  coordinator_options how;
  server_variable x{nullptr}, y{nullptr}, n{nullptr};
  std::unique_ptr<cluster_coordinator> coordinator;
};

TEST(RegisteredClosures, ReturnResultsOfWorkersOnNodes) {
  fixture f;
  std::vector<remote_value<tensors>> all;
  // Larger than a tensor in a frame.
  const auto large = tensor::full({300, 100}, 3);
  for (int i = 0; i < 20; ++i)
    all.push_back(f.coordinator->schedule_named("move", {large}));
  ASSERT_TRUE(f.coordinator->join_for(patience));
  bool worked[2] = {};
  for (const auto& one : all) {
    const auto results = one.get();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_TRUE(same_bits(results[0], tensor::full({300, 100}, 6)));
    worked[int(results[1].item<float>())] = true;
  }
  EXPECT_TRUE(worked[0] && worked[1]);
  EXPECT_EQ(number(f.n), 20);
  EXPECT_EQ(number(f.x) + number(f.y), 100);
}

TEST(RegisteredClosures, UseTheOptimizerOfTheCoordinatorsProgram) {
  fixture f;
  for (int i = 0; i < 4; ++i)
    f.coordinator->schedule_named("descend", {tensor::full({}, 2)});
  ASSERT_TRUE(f.coordinator->join_for(patience));
  EXPECT_EQ(number(f.x), 92);
}

TEST(RegisteredClosures, TellTheirReportsInOrder) {
  fixture f;
  std::mutex lock;
  std::vector<float> seen;
  const auto done = f.coordinator->schedule_named(
    "report", {}, {.on_report = [&](const tensors& what) {
      const std::lock_guard hold{lock};
      seen.push_back(what.at(0).item<float>());
    }});
  EXPECT_TRUE(done.get().empty());
  const std::lock_guard hold{lock};
  EXPECT_EQ(seen, (std::vector<float>{0, 1, 2, 3}));
}

TEST(RegisteredClosures, ReportErrors) {
  fixture f;
  const auto thrown = f.coordinator->schedule_named("throw");
  try {
    thrown.get();
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::invalid);
    const std::string text = e.what();
    EXPECT_NE(text.find("has thrown"), text.npos) << text;
    EXPECT_TRUE(text.find(f.workers[0]->address()) != text.npos
                || text.find(f.workers[1]->address()) != text.npos)
      << text;
  }
  EXPECT_THROW(f.coordinator->join(), job_error);
  EXPECT_EQ(number(f.x), 100); // it has changed nothing
  EXPECT_THROW(f.coordinator->schedule_named("walk"), std::invalid_argument);
  EXPECT_THROW(f.coordinator->schedule([] {}), std::logic_error);
  EXPECT_THROW(f.coordinator->add_worker(), std::logic_error);
  f.coordinator->schedule_named("move", {tensor::full({}, 1)}).get();
}

/// What is executed on nodes ends before the error is reported.
TEST(RegisteredClosures, A26AreStoppedBeforeAnErrorIsReported) {
  fixture f;
  const auto endless = f.coordinator->schedule_named("endless");
  const auto thrown = f.coordinator->schedule_named("throw");
  EXPECT_THROW(f.coordinator->join(), job_error);
  EXPECT_THROW(endless.get(), closure_cancelled);
  f.coordinator->schedule_named("move", {tensor::full({}, 1)}).get();
}

/// A worker ends while it executes an endless closure.
TEST(RegisteredClosures, A25AreExecutedAgainIfAWorkerIsLost) {
  log_from(log_level::error); // the loss of a worker is a warning
  fixture f{3};
  std::vector<remote_value<tensors>> all;
  for (int i = 0; i < 60; ++i)
    all.push_back(f.coordinator->schedule_named("move", {tensor::full({}, i)}));
  EXPECT_TRUE(becomes_true([] { return executions >= 10; }));
  f.workers[0]->server.reset(); // the connection and its roles end
  ASSERT_TRUE(f.coordinator->join_for(patience));
  log_from(log_level::warning);
  EXPECT_EQ(f.coordinator->workers(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(number(f.n), 60); // each counts once
  EXPECT_EQ(number(f.x) + number(f.y), 100);
  for (int i = 0; i < 60; ++i)
    EXPECT_EQ(all[std::size_t(i)].get()[0].item<float>(), float(2 * i));
  const test_node another;
  EXPECT_EQ(f.coordinator->add_worker(another.address()), 0u);
  EXPECT_TRUE(f.coordinator->remove_worker(1));
  f.coordinator->schedule_named("move", {tensor::full({}, 1)}).get();
  EXPECT_EQ(number(f.n), 61);
}

TEST(RegisteredClosures, GetTheArgumentsOfTheCoordinator) {
  fixture on;
  on.coordinator.reset();
  on.how.closures = "repeat";
  on.how.arguments = std::string(60'000, 'x');
  cluster_coordinator repeated{on.strategy, on.how};
  EXPECT_EQ(repeated.schedule_named("length").get().at(0).item<float>(), 60000);
}

TEST(RegisteredClosures, AWorkerThatWasStartedAgainIsUsedAgain) {
  fixture on;
  on.coordinator.reset();
  on.how.reconnect_interval = 1ms;
  on.coordinator = std::make_unique<cluster_coordinator>(on.strategy, on.how);
  auto& coordinator = *on.coordinator;
  const auto address = on.workers[0]->address();
  on.workers[0].reset();
  const auto wait_for_workers = [&](std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (coordinator.workers().size() != count)
      ASSERT_LT(std::chrono::steady_clock::now(), end);
  };
  wait_for_workers(1);
  on.workers[0] = std::make_unique<test_node>(address);
  wait_for_workers(2);
  on.workers[1].reset(); // the one that is left has the work
  for (int i = 0; i < 20; ++i)
    coordinator.schedule_named("move", {tensor::full({}, 1)});
  ASSERT_TRUE(coordinator.join_for(patience));
  EXPECT_EQ(on.n.value().item<float>(), 20);
}

TEST(RegisteredClosures, AFactoryThatThrowsAnythingIsReportedAtOnce) {
  fixture f;
  f.coordinator.reset();
  auto how = f.how;
  how.closures = "throws";
  try {
    cluster_coordinator{f.strategy, how};
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::refused) << e.what();
    EXPECT_NE(std::string{e.what()}.find("no std::exception"),
              std::string::npos)
      << e.what();
  }
}

TEST(RegisteredClosures, AWorkerThatCannotBeUsedIsNamed) {
  fixture f;
  f.coordinator.reset(); // a strategy has one at a time
  const auto failure = [&](const std::string& closures) {
    auto how = f.how;
    how.closures = closures;
    try {
      cluster_coordinator{f.strategy, how};
    } catch (const job_error& e) {
      return std::pair{e.code, std::string{e.what()}};
    }
    return std::pair{ec::protocol, std::string{"no error"}};
  };
  EXPECT_EQ(failure("other").first, ec::refused) << failure("other").second;
  runtime plain;
  const parameter_server_strategy empty{
    plain,
    {.nodes = {f.servers[0].address()}, .node_connection = without_secret()}};
  try {
    cluster_coordinator{empty, f.how};
    FAIL() << "no error";
  } catch (const job_error& e) { // its factory does not find "x"
    EXPECT_EQ(e.code, ec::refused);
    EXPECT_NE(std::string{e.what()}.find("there is no variable \"x\""),
              std::string::npos)
      << e.what();
  }
  auto many = f.how;
  many.in_flight = 1025;
  EXPECT_THROW((cluster_coordinator{f.strategy, many}), std::invalid_argument);
  const parameter_server_strategy here{plain};
  EXPECT_THROW((cluster_coordinator{here, f.how}), std::invalid_argument);
  auto unnamed = f.how;
  unnamed.closures.clear();
  EXPECT_THROW((cluster_coordinator{f.strategy, unnamed}),
               std::invalid_argument);
}

} // namespace
} // namespace troupe
