#pragma once

#include "troupe/training/strategies/multi_worker.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::benchmarks {

struct local_job {
  std::uint32_t processes = 2;
  std::string transport = "auto";      ///< Or "shm", "tcp", "tls".
  std::string implementation = "auto"; ///< Or "tree", "ring".
  /// Time between two heartbeats of a process. The timeout is ten times as
  /// long, and at least 1 s.
  std::chrono::milliseconds heartbeat_interval{100};
};

/// Runs one job with `job.processes` processes on this host. Each process calls
/// `fn` with the strategy of the job and its own rank. Rank 0 is this process,
/// which forks the other processes.
/// @pre this process has started no thread.
/// @errors throws std::runtime_error if a process fails.
void run_local_job(
  const local_job& job,
  const std::function<void(const multi_worker_mirrored_strategy&,
                           std::uint32_t rank)>& fn);

} // namespace troupe::benchmarks
