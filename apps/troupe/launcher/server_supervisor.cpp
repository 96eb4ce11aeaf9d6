#include "troupe/apps/troupe/launcher/server_supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

std::optional<std::chrono::steady_clock::time_point>
server_supervisor::on_idle() {
  if (chief_end())
    end_job();
  const auto next =
    restarts_.start_due(launcher_, [this](const std::string& name) {
      launcher_.start_again(name);
      starts_ += is_worker(name) ? 1 : 0;
    });
  const auto* const last = needs_worker_ ? last_worker_end() : nullptr;
  if (!is_ending_ && !next && last && !last_worker_) {
    last_worker_ = *last;
    restarts_.cancel(); // also of servers
    end_chief_();
  }
  return next;
}

const process_exit* server_supervisor::chief_end() const {
  const auto& ends = launcher_.children().ended();
  const auto found = std::ranges::find(ends, chief, &process_exit::name);
  return found == ends.end() ? nullptr : &*found;
}

void server_supervisor::end_job() {
  restarts_.cancel();
  if (!std::exchange(is_ending_, true))
    launcher_.children().signal(
      SIGTERM, [](const std::string& name) { return name != evaluator; });
}

/// Returns the last end of a worker if all have failed. Null: one runs, or was
/// told to end by the chief.
const process_exit* server_supervisor::last_worker_end() const {
  const auto is_lost_worker = [](const process_exit& x) {
    return is_worker(x.name) && x.failed();
  };
  const auto& ends = launcher_.children().ended();
  if (static_cast<std::uint64_t>(std::ranges::count_if(ends, is_lost_worker))
      < starts_)
    return nullptr;
  return &*std::find_if(ends.rbegin(), ends.rend(), is_lost_worker);
}
