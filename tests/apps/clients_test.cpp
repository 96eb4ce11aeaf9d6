#include "client_program.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

// Tests of a client in this process whose nodes run in other processes.

namespace {

using namespace troupe;
using troupe::test::becomes_true;

TEST(Clients, TrainOnNodesWithTheWeightsOfOneProcess) {
  const node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  EXPECT_EQ(run_program(remote, [](int) { return no_signal; }), undisturbed(2));
}

/// Runs the program on nodes of which one gets a signal in a call.
void expect_same_weights_after(std::size_t count, int victim, int signal,
                               int in_call) {
  SCOPED_TRACE("node " + std::to_string(victim) + " of " + std::to_string(count)
               + ", signal " + std::to_string(signal) + " in call "
               + std::to_string(in_call));
  const node_processes nodes{count};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  const auto weights = run_program(remote, [&](int call) {
    return call == in_call ? signal_of(victim, signal) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(std::uint32_t(count)));
  EXPECT_EQ(remote.lost_nodes(),
            std::vector<std::string>{nodes.addresses[std::size_t(victim)]});
  if (signal == SIGKILL) {
    EXPECT_EQ(nodes.processes[std::size_t(victim)]->end(), 128 + SIGKILL);
  }
}

TEST(Clients, GoOnWithTheSameWeightsWhenANodeIsKilledDuringAStep) {
  for (const int victim : {0, 1, 2})
    expect_same_weights_after(3, victim, SIGKILL, 2);
}

TEST(Clients, GoOnWithTheSameWeightsWhenANodeIsKilledDuringAFit) {
  for (const int victim : {0, 1, 2})
    expect_same_weights_after(3, victim, SIGKILL, fit_call);
}

TEST(Clients, GoOnWithOneOfTwoNodesOfAMachine) {
  for (const int victim : {0, 1})
    expect_same_weights_after(2, victim, SIGKILL, 6);
}

TEST(Clients, GoOnWithTheSameWeightsWhenANodeIsStopped) {
  for (const int in_call : {2, fit_call})
    expect_same_weights_after(3, in_call == 2 ? 0 : 1, SIGSTOP, in_call);
}

TEST(Clients, GoOnWhenTwoOfThreeNodesAreKilledBetweenCalls) {
  node_processes nodes{3};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  const auto weights = run_program(remote, [&](int call) {
    if (call == 2 || call == 5) {
      nodes.processes[call == 2 ? 0 : 2]->signal(SIGKILL);
      EXPECT_EQ(nodes.processes[call == 2 ? 0 : 2]->end(), 128 + SIGKILL);
    }
    return no_signal;
  });
  EXPECT_EQ(weights, undisturbed(3));
  EXPECT_EQ(remote.workers(), 1u);
}

/// Without evidence of its death the other one is no majority.
TEST(Clients, ReportOneOfTwoNodesThatIsStoppedDuringAStep) {
  const node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  EXPECT_EQ(remote.run("sum", no_signal)[1][0].item<float>(), 2.0f);
  std::unique_ptr<job_error> error;
  try {
    remote.run("sum", signal_of(1, SIGSTOP));
  } catch (const job_error& x) {
    error = std::make_unique<job_error>(x);
  }
  ASSERT_TRUE(error) << "no error was reported";
  EXPECT_EQ(error->code, ec::unreachable);
  const std::string begin =
    "node " + nodes.addresses[1] + " (worker 1), function \"sum\", step 1: ";
  EXPECT_EQ(std::string{error->what()}.rfind(begin, 0), 0u) << error->what();
  remote_strategy remaining{actors, {nodes.addresses[0]}, {.steps = "small"}};
  EXPECT_EQ(remaining.run("sum", no_signal)[0][0].item<float>(), 1.0f);
}

/// One of three is no majority, although it knows that the others are dead.
TEST(Clients, ReportTwoOfThreeNodesThatAreKilledAtOnce) {
  const node_processes nodes{3};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  remote.run("sum", no_signal);
  for (const std::size_t one : {0, 1}) {
    nodes.processes[one]->signal(SIGKILL);
    EXPECT_EQ(nodes.processes[one]->end(), 128 + SIGKILL);
  }
  try {
    remote.run("sum", no_signal);
    ADD_FAILURE() << "no error was reported";
  } catch (const job_error& x) {
    EXPECT_EQ(x.code, ec::peer_lost);
    const std::string begin =
      "node " + nodes.addresses[0] + " (worker 0), function \"sum\", step 1: ";
    EXPECT_EQ(std::string{x.what()}.rfind(begin, 0), 0u) << x.what();
  }
}

/// In the end only the node is left that was added.
TEST(Clients, AddANodeThatGoesOnAlone) {
  node_processes nodes{2};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  const auto weights = run_program(remote, [&](int call) {
    if (call == 6)
      remote.add(nodes.start());
    return call == 2   ? signal_of(0, SIGKILL)
           : call == 7 ? signal_of(0, SIGKILL) // now on the other node
                       : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(2));
  EXPECT_EQ(remote.workers(), 1u);
  EXPECT_EQ(remote.lost_nodes(), std::vector<std::string>{nodes.addresses[1]});
}

TEST(Clients, AddANodeAgainThatWasStopped) {
  node_processes nodes{3};
  runtime actors;
  remote_strategy remote{actors, nodes.addresses, {.steps = "small"}};
  const auto weights = run_program(remote, [&](int call) {
    if (call == 3) {
      EXPECT_EQ(remote.lost_nodes(),
                std::vector<std::string>{nodes.addresses[1]});
      nodes.processes[1]->signal(SIGCONT);
      remote_node node{actors, nodes.addresses[1]};
      EXPECT_TRUE(becomes_true([&] { return node.info().running.empty(); }));
      remote.add(nodes.addresses[1]);
    }
    return call == 2 ? signal_of(1, SIGSTOP) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
}

} // namespace
