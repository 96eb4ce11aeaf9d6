#pragma once

#include "troupe/training/strategies/multi_worker.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::benchmarks {

struct local_job {
  std::uint32_t processes = 2;
  std::string transport = "auto";      ///< Or "shm", "tcp", "tls".
  std::string implementation = "auto"; ///< Or "tree", "ring".
};

/// Runs `rank` in that many processes of this host, forked from this one, each
/// with a strategy over all of them.
/// @pre no thread was started yet.
/// @errors throws std::runtime_error if one of them fails.
void run_local_job(
  const local_job& how,
  const std::function<void(const multi_worker_mirrored_strategy&,
                           std::uint32_t rank)>& fn);

} // namespace troupe::benchmarks
