#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/training/remote/step_functions.hpp"

#include <caf/typed_actor.hpp>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// Arguments with which a client spawns a worker.
struct worker_arguments {
  std::string job; ///< Name of the job, which all workers of a client share.
  /// Addresses of the nodes, in order of worker numbers.
  std::vector<std::string> addresses{};
  std::uint32_t index = 0; ///< Number of this worker, from 0.
  std::string argument{};  ///< Argument of the factory of step functions.
  std::vector<std::string> devices{}; ///< Devices of each worker.
  std::int32_t threads = 1;
  transport_kind transport = transport_kind::automatic;
  std::int64_t bytes_per_pack = 0;
  std::uint64_t timeout_ms = 0;          ///< Timeout of a step.
  std::uint64_t callback_timeout_ms = 0; ///< Timeout of a save or a callback.
  /// Maximum wait for the other workers to join the job.
  std::uint64_t start_timeout_ms = 0;
  auto fields() {
    return std::tie(job, addresses, index, argument, devices, threads,
                    transport, bytes_per_pack, timeout_ms, callback_timeout_ms,
                    start_timeout_ms);
  }
};

/// Description that a worker sends to the client after all workers have joined.
struct worker_info {
  std::vector<std::uint32_t> replica_ids{}; ///< Its replicas, ascending.
  std::uint32_t replicas = 0;               ///< Replicas of all workers.
  std::string transport{};
  /// Names of the functions in `step_functions::run` and in
  /// `step_functions::call`.
  std::vector<std::string> runs{}, calls{};
  auto fields() {
    return std::tie(replica_ids, replicas, transport, runs, calls);
  }
};

/// Outcome of a request, as a worker replies to the client.
struct worker_status {
  bool done = false;
  /// Meaningful if `done` is false. True: this worker failed. False: another
  /// worker failed or was lost.
  bool failed_here = true;
  ec code = ec::invalid;
  std::string error_text{};
  worker_info info{};
  /// Number of result tensors of each replica of the worker.
  std::vector<std::uint32_t> tensor_counts{};
  auto fields() {
    return std::tie(done, failed_here, code, error_text, info, tensor_counts);
  }
};

/// Interface of a worker, which runs a part of the replicas of a client's
/// strategy. A client spawns a worker on a node as the role "steps/NAME". A
/// worker handles one request at a time.
using worker_actor = caf::typed_actor<
  // Joins the job with the other workers, and then makes the step functions.
  caf::replies_to<atom::info>::with<worker_status>,
  // Calls a function by name. The next argument after the name is the number of
  // the request, which the client increments. Then follow the tensor counts,
  // one for each replica of this worker. A single count means that every
  // replica gets all tensors. The last argument contains the tensors of all
  // replicas, one replica after another.
  caf::replies_to<atom::run, std::string, std::uint64_t,
                  std::vector<std::uint32_t>,
                  tensors>::with<worker_status, tensors>,
  // Leaves the job, and replies when the other workers leave too.
  caf::replies_to<atom::stop>::with<bool>>;

/// Returns the name of the role that has these step functions.
std::string role_of_steps(const std::string& name);

} // namespace troupe
