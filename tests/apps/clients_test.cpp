#include "background.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

// Tests of a client in this process whose nodes run in other processes.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

struct node_processes {
  explicit node_processes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      processes.push_back(std::make_unique<background_process>(
        std::vector<std::string>{TROUPE_PROGRAMS "/steps_node"}));
    for (const auto& one : processes)
      addresses.push_back(one->line().substr(std::strlen("listening on ")));
  }

  std::vector<std::unique_ptr<background_process>> processes;
  std::vector<std::string> addresses;
};

tensors signal_replica(int replica, int signal) {
  return {tensor::full({}, replica), tensor::full({}, signal)};
}

/// Sends a signal to one node during a step. Checks the error text, and that
/// the other nodes can be used again.
/// @returns the error that the client receives.
job_error error_after(int signal) {
  const node_processes nodes{3};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  EXPECT_EQ(remote.run("sum", signal_replica(-1, 0))[2][0].item<float>(), 3.0f);
  std::unique_ptr<job_error> error;
  try {
    remote.run("sum", signal_replica(1, signal));
  } catch (const job_error& x) {
    error = std::make_unique<job_error>(x);
  }
  if (!error) {
    ADD_FAILURE() << "no error was reported";
    return {ec::invalid, ""};
  }
  const std::string begin =
    "node " + nodes.addresses[1] + " (worker 1), function \"sum\", step 1: ";
  EXPECT_EQ(std::string{error->what()}.rfind(begin, 0), 0u) << error->what();
  remote_strategy remaining{
    actors, {nodes.addresses[0], nodes.addresses[2]}, {.steps = "small"}};
  EXPECT_EQ(remaining.run("sum", signal_replica(-1, 0))[0][0].item<float>(),
            2.0f);
  return *error;
}

TEST(Clients, FitOnNodesWithTheWeightsOfOneProcess) {
  const node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  const one_device_strategy alone{"cpu:0", {.replicas = 2}};
  const auto scope = alone.scope();
  model trained{models::mlp(), adam{}, {.seed = 5}};
  const auto data = data::digits({.examples = 200, .seed = 3});
  trained.fit(data.shuffle(data::whole_dataset, 1).batch(16), {.epochs = 2});
  for (const auto& one : remote.call("fit")) {
    const auto text = one[0].data<std::uint8_t>();
    EXPECT_EQ((std::string{text.begin(), text.end()}),
              trained.weights_sha256());
  }
}

TEST(Clients, ReportANodeThatIsKilledDuringAStep) {
  EXPECT_EQ(error_after(SIGKILL).code, ec::peer_lost);
}

TEST(Clients, ReportANodeThatIsStoppedDuringAStep) {
  EXPECT_EQ(error_after(SIGSTOP).code, ec::unreachable);
}

} // namespace
