#include "background.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

// A client in this process, with nodes in other processes.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

struct node_processes {
  explicit node_processes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(std::make_unique<background>(
        std::vector<std::string>{TROUPE_PROGRAMS "/steps_node"}));
    for (const auto& one : all)
      addresses.push_back(one->line().substr(std::strlen("listening on ")));
  }

  std::vector<std::unique_ptr<background>> all;
  std::vector<std::string> addresses;
};

tensors do_to(int replica, int signal) {
  return {tensor::full({}, replica), tensor::full({}, signal)};
}

/// Sends a signal to one node during a step. Checks the error text, and that
/// the other nodes can be used again.
/// @returns the error.
failure after(int signal) {
  const node_processes there{3};
  runtime here;
  remote_strategy on{here, there.addresses, {.steps = "small"}};
  EXPECT_EQ(on.run("sum", do_to(-1, 0))[2][0].item<float>(), 3.0f);
  std::unique_ptr<failure> heard;
  try {
    on.run("sum", do_to(1, signal));
  } catch (const failure& x) {
    heard = std::make_unique<failure>(x);
  }
  if (!heard) {
    ADD_FAILURE() << "no error was reported";
    return {ec::invalid, ""};
  }
  const std::string begin =
    "node " + there.addresses[1] + " (worker 1), function \"sum\", step 1: ";
  EXPECT_EQ(std::string{heard->what()}.rfind(begin, 0), 0u) << heard->what();
  remote_strategy rest{
    here, {there.addresses[0], there.addresses[2]}, {.steps = "small"}};
  EXPECT_EQ(rest.run("sum", do_to(-1, 0))[0][0].item<float>(), 2.0f);
  return *heard;
}

TEST(Clients, FitOnNodesWithTheWeightsOfOneProcess) {
  const node_processes there{2};
  runtime here;
  remote_strategy on{here, there.addresses, {.steps = "small"}};
  const one_device_strategy alone{"cpu:0", {.replicas = 2}};
  const auto scope = alone.scope();
  model it{models::mlp(), adam{}, {.seed = 5}};
  const auto data = data::digits({.examples = 200, .seed = 3});
  it.fit(data.shuffle(data::whole, 1).batch(16), {.epochs = 2});
  for (const auto& one : on.call("fit")) {
    const auto text = one[0].data<std::uint8_t>();
    EXPECT_EQ((std::string{text.begin(), text.end()}), it.weights_sha256());
  }
}

TEST(Clients, ReportANodeThatIsKilledDuringAStep) {
  EXPECT_EQ(after(SIGKILL).code, ec::peer_lost);
}

TEST(Clients, ReportANodeThatIsStoppedDuringAStep) {
  EXPECT_EQ(after(SIGSTOP).code, ec::unreachable);
}

} // namespace
