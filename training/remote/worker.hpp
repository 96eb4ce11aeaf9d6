#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/training/remote/step_functions.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// What a worker is spawned with: its part of a client's strategy.
struct worker_order {
  std::string job;                      ///< The same for all of one client.
  std::vector<std::string> addresses{}; ///< Of all nodes, in order of workers.
  std::uint32_t index = 0;              ///< Which of them this is.
  std::string argument{};               ///< For the factory of steps.
  std::vector<std::string> devices{};   ///< Of each worker.
  std::int32_t threads = 1;
  transport_kind transport = transport_kind::automatic;
  std::int64_t bytes_per_pack = 0;
  std::uint64_t timeout_ms = 0;          ///< Of a step.
  std::uint64_t callback_timeout_ms = 0; ///< Of a save or a callback.
  std::uint64_t patience_ms = 0;         ///< Of the start.
  auto fields() {
    return std::tie(job, addresses, index, argument, devices, threads,
                    transport, bytes_per_pack, timeout_ms, callback_timeout_ms,
                    patience_ms);
  }
};

/// What it is once all are there.
struct worker_seat {
  std::uint32_t first = 0, count = 0; ///< Its replicas.
  std::uint32_t replicas = 0;         ///< Of all workers.
  std::string transport{};
  std::vector<std::string> runs{}, calls{}; ///< Names of its functions.
  auto fields() {
    return std::tie(first, count, replicas, transport, runs, calls);
  }
};

/// What came of something it was told.
struct worker_news {
  bool done = false;
  /// If not: whether it failed here; else another worker did, or was lost.
  bool here = true;
  ec code = ec::invalid;
  std::string why{};
  worker_seat seat{};
  std::vector<std::uint32_t> parts{}; ///< Tensors of each replica.
  auto fields() { return std::tie(done, here, code, why, seat, parts); }
};

/// WORKER: some replicas of a client's strategy, spawned on a node under
/// "steps/NAME". One request at a time; after one that failed only `stop`.
using worker_actor = caf::typed_actor<
  // Joins the other workers; then the steps are made.
  caf::replies_to<atom::who>::with<worker_news>,
  // Runs a function by name: as how many-th, with how many tensors for each of
  // its replicas (one number: the same for all), and these.
  caf::replies_to<atom::run, std::string, std::uint64_t,
                  std::vector<std::uint32_t>,
                  tensors>::with<worker_news, tensors>,
  // Leaves the others, once they leave too.
  caf::replies_to<atom::stop>::with<bool>>;

/// The name of the role that has these steps.
std::string role_of_steps(const std::string& name);

} // namespace troupe
