#include "background.hpp"
#include "tool.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// A coordinator in this process, whose servers and workers are processes.

namespace troupe {
namespace {

using namespace std::chrono_literals;

using troupe::test::becomes_true;
using troupe::test::patience;

struct node_process {
  explicit node_process(const std::vector<std::string>& command)
    : process{command},
      address{process.line().substr(std::strlen("listening on "))} {}
  background_process process;
  const std::string address;
};

class ClosuresInProcesses : public ::testing::Test {
protected:
  ClosuresInProcesses() {
    log_from(log_level::error); // the loss of a worker is a warning
    for (int i = 0; i < 2; ++i) {
      servers.push_back(std::make_unique<node_process>(
        std::vector<std::string>{TROUPE_TOOL, "node"}));
      start_worker();
    }
    strategy.emplace(actors,
                     parameter_server_options{
                       .nodes = {servers[0]->address, servers[1]->address}});
    x.emplace(strategy->make_variable("x", tensor::full({}, 100)));
    y.emplace(strategy->make_variable("y", tensor::full({}, 0)));
    n.emplace(strategy->make_variable("n", tensor::full({}, 0)));
    coordinator.emplace(
      *strategy,
      coordinator_options{.in_flight = 2,
                          .nodes = {workers[0]->address, workers[1]->address},
                          .closures = "moves"});
  }
  ~ClosuresInProcesses() override { log_from(log_level::warning); }

  const std::string& start_worker() {
    workers.push_back(std::make_unique<node_process>(
      std::vector<std::string>{TROUPE_PROGRAMS "/closures_node"}));
    return workers.back()->address;
  }

  static float number(const std::optional<server_variable>& v) {
    return v->value().item<float>();
  }

  std::vector<std::unique_ptr<node_process>> servers, workers;
  runtime actors;
  std::optional<parameter_server_strategy> strategy;
  std::optional<server_variable> x, y, n;
  std::optional<cluster_coordinator> coordinator;
};

/// A worker is killed while it executes a closure that does not end.
TEST_F(ClosuresInProcesses, A25CountOnceIfAWorkerIsKilled) {
  const auto endless = coordinator->schedule_named("endless");
  for (int i = 0; i < 200; ++i)
    coordinator->schedule_named("move");
  ASSERT_FALSE(coordinator->join_for(50ms)); // one worker is occupied
  // The worker with the most free places got the first closure.
  workers[0]->process.signal(SIGKILL);
  coordinator->add_worker(start_worker());
  ASSERT_TRUE(coordinator->join_for(patience));
  EXPECT_EQ(endless.status(), remote_value_status::ready);
  EXPECT_EQ(number(n), 201);
  EXPECT_EQ(number(x) + number(y), 100);
}

TEST_F(ClosuresInProcesses, A30AResultIsKeptAfterItsWorkerWasKilled) {
  const auto moved = coordinator->schedule_named("move");
  ASSERT_TRUE(coordinator->join_for(patience));
  for (const auto& worker : workers)
    worker->process.signal(SIGKILL);
  ASSERT_TRUE(becomes_true( // their loss is known
    [&] { return coordinator->workers().empty(); }));
  const auto step = moved.get();
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(step[0].item<float>(), 1);
}

TEST_F(ClosuresInProcesses, A27AServerThatIsKilledIsNamed) {
  servers[1]->process.signal(SIGKILL);
  try {
    for (;;) {
      coordinator->schedule_named("move");
      coordinator->join();
    }
  } catch (const job_error& e) {
    EXPECT_NE(std::string{e.what()}.find("parameter server 1"),
              std::string::npos)
      << e.what();
  }
}

} // namespace
} // namespace troupe
