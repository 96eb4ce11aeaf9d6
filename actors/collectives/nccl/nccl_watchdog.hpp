#pragma once

#include "troupe/actors/collectives/nccl/nccl_collectives.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace troupe {

/// Calls `check` of the collectives of a rank at an interval, on a thread of
/// its own. So a communicator is aborted at its deadline, and the memory of an
/// aborted one is released, also while all replicas compute.
class nccl_watchdog {
public:
  nccl_watchdog(std::shared_ptr<nccl_collectives> rank,
                std::chrono::milliseconds interval);
  ~nccl_watchdog();
  nccl_watchdog(const nccl_watchdog&) = delete;
  nccl_watchdog& operator=(const nccl_watchdog&) = delete;

private:
  std::mutex lock_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

} // namespace troupe
