#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/training/remote/step_functions.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// Arguments of a worker: its part of a client's strategy.
struct worker_arguments {
  std::string job; ///< Name of the job, equal for all workers of a client.
  /// Addresses of all nodes, in order of workers.
  std::vector<std::string> addresses{};
  std::uint32_t index = 0; ///< Number of this worker.
  std::string argument{};  ///< Argument of the factory of step functions.
  std::vector<std::string> devices{}; ///< Devices of each worker.
  std::int32_t threads = 1;
  transport_kind transport = transport_kind::automatic;
  std::int64_t bytes_per_pack = 0;
  std::uint64_t timeout_ms = 0;          ///< Timeout of a step.
  std::uint64_t callback_timeout_ms = 0; ///< Timeout of a save or a callback.
  std::uint64_t start_timeout_ms = 0;    ///< Timeout of the start.
  auto fields() {
    return std::tie(job, addresses, index, argument, devices, threads,
                    transport, bytes_per_pack, timeout_ms, callback_timeout_ms,
                    start_timeout_ms);
  }
};

/// Description of a worker, known once all have joined.
struct worker_info {
  std::vector<std::uint32_t> replica_ids{}; ///< Its replicas, ascending.
  std::uint32_t replicas = 0;               ///< Replicas of all workers.
  std::string transport{};
  std::vector<std::string> runs{}, calls{}; ///< Names of its functions.
  auto fields() {
    return std::tie(replica_ids, replicas, transport, runs, calls);
  }
};

/// Status of a request to a worker.
struct worker_status {
  bool done = false;
  /// If not done: true if this worker failed; false if another worker failed or
  /// was lost.
  bool failed_here = true;
  ec code = ec::invalid;
  std::string error_text{};
  worker_info info{};
  /// Number of result tensors of each replica.
  std::vector<std::uint32_t> tensor_counts{};
  auto fields() {
    return std::tie(done, failed_here, code, error_text, info, tensor_counts);
  }
};

/// A worker: it has some replicas of a client's strategy, and is spawned on a
/// node as the role "steps/NAME". It processes one request at a time; after a
/// failure it accepts only `stop`.
using worker_actor = caf::typed_actor<
  // Joins the other workers; then makes the step functions.
  caf::replies_to<atom::info>::with<worker_status>,
  // Runs a function by name. Further arguments: the number of the request,
  // which the client increments; the tensor count of each local replica (a
  // single one: all replicas get all tensors); the tensors.
  caf::replies_to<atom::run, std::string, std::uint64_t,
                  std::vector<std::uint32_t>,
                  tensors>::with<worker_status, tensors>,
  // Leaves the job; returns when the other workers leave too.
  caf::replies_to<atom::stop>::with<bool>>;

/// Returns the name of the role that has these step functions.
std::string role_of_steps(const std::string& name);

} // namespace troupe
