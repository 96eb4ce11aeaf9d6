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

/// The worker that failed, and the reason.
struct worker_failure {
  std::size_t worker = 0;
  ec code = ec::invalid;
  std::string error_text;
};

/// A request to all workers.
struct worker_request {
  std::string function;
  std::uint64_t number = 0;
  /// By worker; as in the request of `worker_actor`.
  std::vector<std::vector<std::uint32_t>> tensor_counts;
  std::vector<tensors> inputs;
};

/// Each of these sends a request to all workers. It waits until all have
/// replied, one has failed by its own fault, or the timeout expires.
/// @returns the replies by worker; for a missing reply a status that is not
///          `done`.
std::vector<worker_reply> join_all(caf::actor_system& system,
                                   const std::vector<worker_actor>& workers,
                                   std::chrono::milliseconds timeout);
std::vector<worker_reply> run_all(caf::actor_system& system,
                                  const std::vector<worker_actor>& workers,
                                  const worker_request& task,
                                  std::chrono::milliseconds timeout);
void leave_all(caf::actor_system& system,
               const std::vector<worker_actor>& workers,
               std::chrono::milliseconds timeout);

/// Returns the first worker that failed by its own fault; else the first that
/// reports a failure of another. None: all requests succeeded.
std::optional<worker_failure>
find_failure(const std::vector<worker_reply>& replies);

} // namespace troupe
