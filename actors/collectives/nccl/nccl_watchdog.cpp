#include "troupe/actors/collectives/nccl/nccl_watchdog.hpp"

#include <utility>

namespace troupe {

nccl_watchdog::nccl_watchdog(std::shared_ptr<nccl_collectives> rank,
                             std::chrono::milliseconds interval)
  : thread_{[this, rank = std::move(rank), interval] {
      std::unique_lock locked{lock_};
      while (!stopped_.wait_for(locked, interval, [this] { return stop_; }))
        rank->check();
    }} {}

nccl_watchdog::~nccl_watchdog() {
  {
    const std::lock_guard locked{lock_};
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

} // namespace troupe
