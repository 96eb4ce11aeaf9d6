#pragma once

#include "../strategies/losses.hpp"
#include "nodes.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>

// Nodes that train a small network, the program of their client, and its
// results without a fault.

namespace troupe::test {

using namespace std::chrono_literals;

inline constexpr std::int64_t global_batch = 16;
using troupe::test::patience;

/// What the functions of the nodes call, on any node.
struct hooks {
  /// In "train", before the sum of the gradients. The number counts the calls
  /// of this node for this replica.
  std::function<void(const strategy&, std::uint32_t replica, int step)> in_step;
  /// After a step of "fit".
  std::function<void(const strategy&, std::uint64_t step)> in_fit;
  /// In the factory of the functions.
  std::function<void(const strategy&)> on_made;
  /// Gets the text with which the fit of "throw" ends.
  std::function<void(const std::string&)> on_end_of_fit;
};

/// Step functions that share a model, an optimizer and a number that counts
/// steps: "train" makes a step, "fit" trains for one epoch.
inline steps_factory training_with(const std::shared_ptr<hooks>& at) {
  return [at](const strategy& on, const std::string&) {
    struct components {
      model net{small_net(true), adam{}, {.seed = 5}};
      optimizer second{sgd{.learning_rate = 0.01f, .momentum = 0.9f}};
      std::array<std::atomic<int>, 8> calls{};
      std::atomic<std::int64_t> count = 0;
    };
    const auto shared = std::make_shared<components>();
    if (at->on_made)
      at->on_made(on);
    step_functions out;
    out.run["train"] = [=](replica_context& self,
                           const tensors& in) -> tensors {
      tape t;
      auto loss =
        models::cross_entropy(shared->net(in[0], {.training = true}), in[1])
        / global_batch;
      const auto gradients = t.gradient(loss, shared->net.variables());
      if (self.replica_id() == on.local_replica_ids().front())
        ++shared->count; // once in each node and step
      if (at->in_step)
        at->in_step(on, self.replica_id(), shared->calls[self.replica_id()]++);
      const auto sums = self.all_reduce(sum, gradients);
      shared->net.optimizer().apply(sums, shared->net.variables());
      shared->second.apply(sums, shared->net.variables());
      return {loss.detach()};
    };
    out.call["fit"] = [=](const tensors&) -> tensors {
      fit_options how{.epochs = 1};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (at->in_fit && !x.repeated)
          at->in_fit(on, x.step);
      }});
      const auto found =
        shared->net.fit(digits_200().shuffle().batch(global_batch), how);
      ++shared->count;
      return {tensor::full({}, found.last().loss, dtype::float64)};
    };
    out.call["weights"] = [=](const tensors&) -> tensors {
      return {bytes_of(shared->net.weights_sha256()),
              tensor::full({}, double(shared->net.optimizer().steps())),
              tensor::full({}, double(shared->second.steps())),
              tensor::full({}, double(shared->count.load()))};
    };
    out.call["throw"] = [=](const tensors& in) -> tensors {
      if (in.empty() || in[0].item<float>() == float(on.worker()))
        throw std::runtime_error("no such file");
      try {
        shared->net.fit(digits_200().shuffle().batch(global_batch),
                        {.epochs = 1'000'000});
      } catch (const job_error& e) {
        if (at->on_end_of_fit)
          at->on_end_of_fit(e.what());
        throw;
      }
      return {};
    };
    out.call["fail"] = [=](const tensors& in) -> tensors {
      const auto worker = in.at(1).item<float>();
      if (worker < 0 || worker == float(on.worker()))
        throw job_error(static_cast<ec>(in[0].item<float>()),
                        "a role of its own is gone");
      return {};
    };
    // [doc:begin snapshot]
    out.snapshot = [=]() -> tensors {
      return {tensor::full({}, double(shared->count.load()), dtype::float64)};
    };
    out.restore = [=](const tensors& x) {
      shared->count = std::int64_t(x.at(0).item<double>());
    };
    // [doc:end]
    return out;
  };
}

struct trained {
  std::vector<float> losses;
  std::vector<double> fits;
  std::string weights;
  std::vector<float>
    counts; ///< Updates of both optimizers, and calls of "fit".
  friend bool operator==(const trained&, const trained&) = default;
};

/// Inputs of each replica for the batches of an epoch.
inline std::vector<per_replica<tensors>> batches_of(std::uint32_t replicas) {
  std::vector<per_replica<tensors>> out;
  const auto on = turns(replicas);
  for (const auto& step :
       on.distribute(digits_200().shuffle().batch(global_batch))) {
    std::vector<tensors> inputs;
    for (const auto& one : step)
      inputs.push_back({one.inputs, one.labels});
    out.emplace_back(std::move(inputs));
  }
  return out;
}

inline void add_to(std::vector<float>& all,
                   const per_replica<tensors>& losses) {
  for (const auto& one : losses)
    all.insert(all.end(), one[0].data<float>().begin(),
               one[0].data<float>().end());
}

inline void add_weights(trained& out, const tensors& found) {
  out.weights = text_of(found[0]);
  for (std::size_t i = 1; i < found.size(); ++i)
    out.counts.push_back(found[i].item<float>());
}

/// The program of a client: `train`, `fit`, and `train` again.
/// @param between called before each call, with its number.
inline trained run_program(remote_strategy& remote,
                           const std::function<void(int)>& between = {}) {
  trained out;
  int number = 0;
  const auto begin = [&] {
    if (between)
      between(number);
    ++number;
  };
  const auto batches = batches_of(remote.num_replicas_in_sync());
  const auto train = [&](std::size_t first, std::size_t end) {
    for (auto i = first; i < end; ++i) {
      begin();
      const auto losses = remote.run("train", batches[i]);
      EXPECT_EQ(losses.size(), remote.num_replicas_in_sync());
      add_to(out.losses, losses);
    }
  };
  train(0, 6);
  begin();
  out.fits.push_back(remote.call("fit").at(0).at(0).item<double>());
  train(6, 13);
  begin();
  const auto all = remote.call("weights");
  EXPECT_EQ(all.size(), remote.workers());
  add_weights(out, all.at(0));
  for (const auto& one : all)
    EXPECT_EQ(text_of(one[0]), out.weights);
  return out;
}

/// The same program in this process.
inline trained run_locally(std::uint32_t replicas) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto does = training_with(std::make_shared<hooks>())(on, "");
  trained out;
  const auto batches = batches_of(replicas);
  const auto train = [&](std::size_t first, std::size_t end) {
    for (auto i = first; i < end; ++i)
      add_to(out.losses, on.run(
                           [&](replica_context& self, const tensors& mine) {
                             return does.run["train"](self, mine);
                           },
                           batches[i]));
  };
  train(0, 6);
  out.fits.push_back(does.call["fit"]({})[0].item<double>());
  train(6, 13);
  add_weights(out, does.call["weights"]({}));
  return out;
}

inline const trained& undisturbed(std::uint32_t replicas) {
  static std::map<std::uint32_t, trained> known;
  if (!known.contains(replicas))
    known[replicas] = run_locally(replicas);
  return known[replicas];
}

/// Nodes that register `training_with`, and hooks for them.
struct training_nodes : several_nodes {
  explicit training_nodes(std::size_t count)
    : training_nodes(count, std::make_shared<hooks>()) {}
  training_nodes(std::size_t count, std::shared_ptr<hooks> all)
    : several_nodes{count, "small", training_with(all)}, at{std::move(all)} {}

  std::shared_ptr<hooks> at;
};

inline const remote_strategy_options small{.steps = "small"};

} // namespace troupe::test
