#pragma once

#include "troupe/training/remote/worker.hpp"

#include <chrono>
#include <optional>
#include <vector>

// Requests of a client to all of its workers.

namespace troupe {

struct worker_reply {
  worker_status status;
  tensors results;
};

/// Names the worker that failed, and the reason.
struct worker_failure {
  std::size_t worker = 0;
  ec code = ec::invalid;
  std::string error_text;
};

/// A request that a client sends to all of its workers.
struct worker_request {
  std::string function;
  std::uint64_t number = 0;
  /// Tensor counts for each worker, as the `run` message of `worker_actor`
  /// describes them.
  std::vector<std::vector<std::uint32_t>> tensor_counts;
  std::vector<tensors> inputs;
};

/// `join_all`, `run_all` and `leave_all` each send a request to all workers.
/// Each waits until all workers have replied, a worker replies that it failed
/// itself, or the timeout expires. The loss of a worker often shows first as a
/// failure of another one, so after a failure each waits for the other replies
/// or a lost connection, at most `after_failure`.
/// @returns the replies by worker. A missing reply has a status that is not
///          `done`.
std::vector<worker_reply> join_all(caf::actor_system& system,
                                   const std::vector<worker_actor>& workers,
                                   std::chrono::milliseconds timeout,
                                   std::chrono::milliseconds after_failure);
std::vector<worker_reply> run_all(caf::actor_system& system,
                                  const std::vector<worker_actor>& workers,
                                  const worker_request& task,
                                  std::chrono::milliseconds timeout,
                                  std::chrono::milliseconds after_failure);
void leave_all(caf::actor_system& system,
               const std::vector<worker_actor>& workers,
               std::chrono::milliseconds timeout);

/// Returns the first worker whose connection was lost, else the first worker
/// that failed itself, else the first worker that reports a failure of another
/// worker. None: all requests succeeded.
std::optional<worker_failure>
find_failure(const std::vector<worker_reply>& replies);

} // namespace troupe
