#include "background.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

// Tests of a client in this process whose nodes run in other processes.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

struct node_processes {
  explicit node_processes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      start();
  }

  /// Starts a further node. @returns its address.
  std::string start() {
    processes.push_back(std::make_unique<background_process>(
      std::vector<std::string>{TROUPE_PROGRAMS "/steps_node"}));
    addresses.push_back(
      processes.back()->line().substr(std::strlen("listening on ")));
    return addresses.back();
  }

  std::vector<std::unique_ptr<background_process>> processes;
  std::vector<std::string> addresses;
};

/// A replica, or in "fit" a worker, and the signal that it raises.
tensors signal_of(int number, int signal) {
  return {tensor::full({}, number), tensor::full({}, signal)};
}

const tensors no_signal = signal_of(-1, 0);

/// The examples of each replica for the batches of an epoch.
std::vector<std::vector<tensors>> batches_of(std::uint32_t replicas) {
  const one_device_strategy on{"cpu:0", {.replicas = replicas}};
  const auto data = data::digits({.examples = 200, .seed = 3});
  std::vector<std::vector<tensors>> out;
  for (const auto& step :
       on.distribute(data.shuffle(data::whole_dataset, 1).batch(16))) {
    auto& batch = out.emplace_back();
    for (const auto& one : step)
      batch.push_back({one.inputs, one.labels});
  }
  return out;
}

/// Number of the calls of the program: 4 of "train", "fit" and 4 of "train".
constexpr int calls = 9;
constexpr int fit_call = 4;

/// Runs the program on nodes.
/// @param signal_in returns the last inputs of a call by its number.
/// @returns the hash of the weights.
std::string run_program(remote_strategy& remote,
                        const std::function<tensors(int)>& signal_in) {
  const auto batches = batches_of(remote.num_replicas_in_sync());
  for (int call = 0; call < calls; ++call) {
    const auto signal = signal_in(call);
    if (call == fit_call) {
      remote.call("fit", signal);
      continue;
    }
    auto inputs = batches.at(std::size_t(call));
    for (auto& one : inputs)
      one.insert(one.end(), signal.begin(), signal.end());
    const auto losses =
      remote.run("train", per_replica<tensors>{std::move(inputs)});
    EXPECT_EQ(losses.size(), remote.num_replicas_in_sync());
  }
  std::string out;
  for (const auto& one : remote.call("weights")) {
    const auto text = one.at(0).data<std::uint8_t>();
    const std::string weights{text.begin(), text.end()};
    EXPECT_TRUE(out.empty() || out == weights);
    out = weights;
  }
  return out;
}

/// Runs the program in this process.
std::string undisturbed(std::uint32_t replicas) {
  const one_device_strategy on{"cpu:0", {.replicas = replicas}};
  const auto scope = on.scope();
  model net{models::mlp(), adam{}, {.seed = 5}};
  const auto batches = batches_of(replicas);
  for (int call = 0; call < calls; ++call) {
    if (call == fit_call) {
      const auto data = data::digits({.examples = 200, .seed = 3});
      net.fit(data.shuffle(data::whole_dataset, 1).batch(16), {.epochs = 1});
      continue;
    }
    on.run(
      [&](replica_context& self, const tensors& inputs) {
        tape t;
        const auto loss =
          models::cross_entropy(net(inputs[0], {.training = true}), inputs[1])
          / 16;
        net.optimizer().apply(
          self.all_reduce(sum, t.gradient(loss, net.variables())),
          net.variables());
      },
      per_replica<tensors>{batches[std::size_t(call)]});
  }
  return net.weights_sha256();
}

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
      const auto deadline = std::chrono::steady_clock::now() + 60s;
      while (!node.info().running.empty()
             && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      remote.add(nodes.addresses[1]);
    }
    return call == 2 ? signal_of(1, SIGSTOP) : no_signal;
  });
  EXPECT_EQ(weights, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
}

} // namespace
