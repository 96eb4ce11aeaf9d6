#include "troupe/apps/troupe/commands/substitute_worker.hpp"

#include "troupe/actors/core/log.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <utility>

using namespace troupe;

namespace {

/// Time between two looks at the workers.
constexpr std::chrono::milliseconds interval{100};

void add_worker(cluster_coordinator& coordinator, const std::string& address) {
  try {
    coordinator.add_worker(address);
    log(log_level::warning,
        "no worker is left; the chief completes the steps that have begun");
  } catch (const std::exception& e) {
    log(log_level::warning,
        std::string{"no worker is left, and the chief cannot complete the "
                    "steps that have begun: "}
          + e.what());
  }
}

} // namespace

substitute_worker::substitute_worker(cluster_coordinator& coordinator,
                                     std::string address,
                                     std::function<bool()> is_stopped)
  : thread_{[&coordinator, address = std::move(address),
             is_stopped = std::move(is_stopped)](const std::stop_token& end) {
      std::condition_variable_any ended;
      std::mutex unused;
      std::unique_lock hold{unused};
      while (!end.stop_requested()) {
        ended.wait_for(hold, end, interval, [] { return false; });
        if (is_stopped() && coordinator.workers().empty())
          return add_worker(coordinator, address);
      }
    }} {}
