#pragma once

#include "troupe/training/remote/worker.hpp"

#include <chrono>
#include <optional>
#include <vector>

// Requests of a client to all of its workers.

namespace troupe {

struct worker_answer {
  worker_news news;
  tensors out;
};

/// The worker that failed, and the reason.
struct worker_fault {
  std::size_t worker = 0;
  ec code = ec::invalid;
  std::string why;
};

/// A request to all workers.
struct worker_task {
  std::string what;
  std::uint64_t number = 0;
  /// By worker; as in the request of `worker_actor`.
  std::vector<std::vector<std::uint32_t>> parts;
  std::vector<tensors> inputs;
};

/// Each of these sends a request to all workers. It waits until all have
/// replied, one has failed by its own fault, or the timeout expires.
/// @returns the replies by worker; for a missing reply a status that is not
///          `done`.
std::vector<worker_answer> join_all(caf::actor_system& in,
                                    const std::vector<worker_actor>& workers,
                                    std::chrono::milliseconds patience);
std::vector<worker_answer> run_all(caf::actor_system& in,
                                   const std::vector<worker_actor>& workers,
                                   const worker_task& task,
                                   std::chrono::milliseconds patience);
void leave_all(caf::actor_system& in, const std::vector<worker_actor>& workers,
               std::chrono::milliseconds patience);

/// Returns the first worker that failed by its own fault; else the first that
/// reports a failure of another. None: all requests succeeded.
std::optional<worker_fault>
fault_among(const std::vector<worker_answer>& answers);

} // namespace troupe
