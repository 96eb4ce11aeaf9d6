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
  /// The worker takes the number of one that the running job has lost.
  bool joins = false;
  /// Number of the first request that the worker gets. The client increments
  /// it.
  std::uint64_t first_request = 0;
  std::string argument{}; ///< Argument of the factory of step functions.
  std::vector<std::string> devices{}; ///< Devices of each worker.
  std::int32_t threads = 1;
  transport_kind transport = transport_kind::automatic;
  std::int64_t bytes_per_pack = 0;
  std::uint64_t timeout_ms = 0;          ///< Timeout of a step.
  std::uint64_t callback_timeout_ms = 0; ///< Timeout of a save or a callback.
  /// Maximum wait for the other workers to join the job.
  std::uint64_t start_timeout_ms = 0;
  auto fields() {
    return std::tie(job, addresses, index, joins, first_request, argument,
                    devices, threads, transport, bytes_per_pack, timeout_ms,
                    callback_timeout_ms, start_timeout_ms);
  }
};

/// Description that a worker sends to the client after all workers have joined.
struct worker_info {
  std::uint32_t replicas = 0; ///< Replicas of all workers.
  std::string transport{};
  /// Names of the functions in `step_functions::run` and in
  /// `step_functions::call`.
  std::vector<std::string> runs{}, calls{};
  /// What must be equal on all workers, one "name: value" in each line.
  std::string description{};
  /// Incarnation of the worker's process in the job, which the process draws.
  /// Zero: the job has one process.
  std::uint64_t incarnation = 0;
  /// Hashes of the initial values of models and optimizers, one "name: value"
  /// in each line. They must be equal on all workers with which the job begins.
  /// Empty for a worker that joins, which gets the values of the others.
  std::string initial_values{};
  auto fields() {
    return std::tie(replicas, transport, runs, calls, description, incarnation,
                    initial_values);
  }
};

/// Outcome of a request, as a worker replies to the client.
struct worker_status {
  bool done = false;
  /// Meaningful if `done` is false. True: this worker failed. False: another
  /// worker failed or was lost, or this one does not belong to the job any
  /// more.
  bool failed_here = true;
  /// Meaningful if `done` is false: this worker does not belong to the job any
  /// more.
  bool out_of_job = false;
  ec code = ec::invalid;
  std::string error_text{};
  worker_info info{}; ///< Reply to `info`.
  /// Replicas that the worker hosts now, ascending.
  std::vector<std::uint32_t> replica_ids{};
  /// Calls of the job that the worker has completed. Each worker counts them;
  /// they are equal if all have completed the same calls.
  std::uint64_t calls = 0;
  /// Replicas of the results, ascending. Empty: the results of a function that
  /// was called once.
  std::vector<std::uint32_t> result_ids{};
  /// Number of result tensors of each of these replicas, or of all.
  std::vector<std::uint32_t> tensor_counts{};
  auto fields() {
    return std::tie(done, failed_here, out_of_job, code, error_text, info,
                    replica_ids, calls, result_ids, tensor_counts);
  }
};

/// Interface of a worker, which runs a part of the replicas of a client's
/// strategy. A client spawns a worker on a node as the role "steps/NAME". The
/// client numbers its requests `run` and `admit` from 0 on, and sends each of
/// them once to each worker:
///
///   who      one client, and one worker on each node
///   start    info, to all workers. Each joins the job and makes its functions
///   run      to all workers, with the inputs of the replicas that each hosted
///            last. A worker replies when it has made all calls of the
///            function, with the results of the replicas that it hosts then
///   on loss  of a worker, in a `run`: the client sends the inputs of its
///            replicas to all others (inputs). Replicas that were taken over
///            wait for them. When all have replied, the client asks one of them
///            for results that no worker has sent (results)
///   admit    to all workers and to one that joins, between two requests: that
///            one becomes a member of the job and copies the state
///   end      stop, to all. A worker that loses its client ends its runs and
///            leaves the job at once, which goes on without it
///   cost     2 messages for each worker and request, and 2 more for each loss
using worker_actor = caf::typed_actor<
  // Joins the job with the other workers, and then makes the step functions.
  // With `joins`: connects to the members of the job.
  caf::replies_to<atom::info>::with<worker_status>,
  // Calls a function by name. Then follow the number of the request, the
  // replicas of the inputs, and a number of tensors for each of them
  // (input_list). The last argument contains the tensors of all these replicas,
  // one replica after another.
  caf::replies_to<atom::run, std::string, std::uint64_t,
                  std::vector<std::uint32_t>, std::vector<std::uint32_t>,
                  tensors>::with<worker_status, tensors>,
  // Inputs of further replicas for the request with this number. Replies false
  // if the worker is not in that request.
  caf::replies_to<atom::inputs, std::uint64_t, std::vector<std::uint32_t>,
                  std::vector<std::uint32_t>, tensors>::with<bool>,
  // Returns the results of these replicas in the last `run`, which has this
  // number.
  caf::replies_to<atom::results, std::uint64_t,
                  std::vector<std::uint32_t>>::with<worker_status, tensors>,
  // Admits the process with this incarnation (`worker_info`) to the job. The
  // first number is that of the request.
  caf::replies_to<atom::admit, std::uint64_t,
                  std::uint64_t>::with<worker_status>,
  // Leaves the job, and replies when the other workers leave too.
  caf::replies_to<atom::stop>::with<bool>>;

/// Returns the name of the role that has these step functions.
std::string role_of_steps(const std::string& name);

} // namespace troupe
