#pragma once

#include "troupe/training/remote/worker.hpp"

#include <chrono>
#include <optional>
#include <vector>

// How a client asks all of its workers at once.

namespace troupe {

struct worker_answer {
  worker_news news;
  tensors out;
};

/// Who failed, and why.
struct worker_fault {
  std::size_t worker = 0;
  ec code = ec::invalid;
  std::string why;
};

/// What all are told to do.
struct worker_task {
  std::string what;
  std::uint64_t number = 0;
  std::vector<std::vector<std::uint32_t>> parts; ///< By worker, as is:
  std::vector<tensors> inputs;
};

/// Each of these asks all, and waits until all have answered, or one has failed
/// by itself, or the patience ends.
/// @returns what they answered, by worker; news that are not `done` of those
///          that did not.
std::vector<worker_answer> join_all(caf::actor_system& in,
                                    const std::vector<worker_actor>& workers,
                                    std::chrono::milliseconds patience);
std::vector<worker_answer> run_all(caf::actor_system& in,
                                   const std::vector<worker_actor>& workers,
                                   const worker_task& task,
                                   std::chrono::milliseconds patience);
void leave_all(caf::actor_system& in, const std::vector<worker_actor>& workers,
               std::chrono::milliseconds patience);

/// Whose fault it is: one that failed by itself, before one that tells of
/// another. None: all did what they were told.
std::optional<worker_fault>
fault_among(const std::vector<worker_answer>& answers);

} // namespace troupe
