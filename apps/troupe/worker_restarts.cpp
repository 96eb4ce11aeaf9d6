#include "worker_restarts.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <utility>

process_exit first_failed_end(const std::vector<process_exit>& ends) {
  const auto is_last = [&](const process_exit& x) {
    return std::ranges::none_of(
      ends, [&](const process_exit& y) { return &y > &x && y.name == x.name; });
  };
  return *std::ranges::find_if(
    ends, [&](const process_exit& x) { return x.failed() && is_last(x); });
}

void warn_of_unreachable(const std::string& name) {
  std::cerr << "warning: " << name
            << " does not answer the other workers; it is killed\n";
}

worker_restarts::worker_restarts(std::uint64_t max_restarts)
  : policy_{max_restarts}, is_enabled_{max_restarts > 0} {}

void worker_restarts::note(const std::string& event) {
  using seconds = std::chrono::duration<double>;
  char time[32];
  std::snprintf(time, sizeof time,
                "%.1f s: ", seconds{clock::now() - begin_}.count());
  events_ += (events_.empty() ? "" : "; ") + (time + event);
}

void worker_restarts::on_end(const process_exit& ended) {
  if (!is_enabled_ || !ended.failed() || ended.left)
    return;
  note(ended.name + ": " + reason(ended));
  if (ended.signal == 0)
    return;
  if (ended.was_superseded)
    return policy_.repeat(ended.name, clock::now());
  using enum restart_policy::decision;
  const auto decision = policy_.on_killed(ended.name, clock::now());
  if (decision == restart || decision == cancelled
      || std::exchange(has_given_up_, true))
    return;
  std::cerr << "warning: " << ended.name << " was killed and is not started "
            << "again, because "
            << (decision == used_up ? "all restarts are used up"
                                    : "processes are killed too often")
            << "; since the start: " << events_ << '\n';
}

std::optional<worker_restarts::clock::time_point> worker_restarts::start_due(
  const local_launcher& launcher,
  const std::function<void(const std::string& name)>& start) {
  // Without a running worker there is no job to join. A worker that has ended
  // by itself says that the job ends, unless it could not join it.
  const auto& children = launcher.children();
  if (!children.running() || children.first_failure() || children.is_job_done())
    policy_.cancel();
  while (const auto name = policy_.take(clock::now())) {
    std::cerr << "warning: " << *name << " was killed; it is started again"
              << (children.has_begun() ? " and joins the job\n" : "\n");
    try {
      start(*name);
      note(*name + " was started again");
    } catch (const std::exception& e) { // the job goes on with those left
      std::cerr << "warning: " << *name
                << " could not be started again: " << e.what() << '\n';
      note(*name + " could not be started again");
    }
  }
  return policy_.next();
}
