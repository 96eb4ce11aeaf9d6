#pragma once

#include "background.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

// The program of a client whose nodes are processes, and its result without a
// fault.

namespace troupe {

struct node_processes {
  explicit node_processes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      start();
  }

  /// Starts a further node.
  /// @param client address to which the node announces itself as a spare.
  ///        Empty: to none.
  /// @returns the address of the node.
  std::string start(const std::string& client = {}) {
    std::vector<std::string> command{TROUPE_PROGRAMS "/steps_node"};
    if (!client.empty())
      command.push_back(client);
    processes.push_back(std::make_unique<background_process>(command));
    addresses.push_back(
      processes.back()->line().substr(std::strlen("listening on ")));
    return addresses.back();
  }

  std::vector<std::unique_ptr<background_process>> processes;
  std::vector<std::string> addresses;
};

/// A replica, or in "fit" a worker, and the signal that it raises.
inline tensors signal_of(int number, int signal) {
  return {tensor::full({}, number), tensor::full({}, signal)};
}

inline const tensors no_signal = signal_of(-1, 0);

/// The examples of each replica for the batches of an epoch.
inline std::vector<std::vector<tensors>> batches_of(std::uint32_t replicas) {
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
inline constexpr int calls = 9;
inline constexpr int fit_call = 4;

/// Runs the program on nodes.
/// @param signal_in returns the last inputs of a call by its number.
/// @returns the hash of the weights.
inline std::string run_program(remote_strategy& remote,
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
inline std::string undisturbed(std::uint32_t replicas) {
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

} // namespace troupe
