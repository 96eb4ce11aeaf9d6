#include "troupe/apps/troupe/launcher/worker_restarts.hpp"

#include <algorithm>
#include <csignal>
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

worker_restarts::worker_restarts(std::uint64_t max_restarts,
                                 bool begin_together)
  : policy_{max_restarts},
    is_enabled_{max_restarts > 0},
    begin_together_{begin_together} {}

void worker_restarts::note(const std::string& event) {
  if (!is_enabled_)
    return;
  using seconds = std::chrono::duration<double>;
  char time[32];
  std::snprintf(time, sizeof time,
                "%.1f s: ", seconds{clock::now() - begin_}.count());
  events_ += (events_.empty() ? "" : "; ") + (time + event);
}

void worker_restarts::on_end(const process_exit& ended) {
  if (!ended.failed() || (ended.left && !ended.has_lost_device) || all_start_)
    return;
  note(ended.name + ": " + reason(ended)
       + (ended.has_lost_device ? ", because its device had failed" : ""));
  if (ended.signal == 0 && !ended.has_lost_device)
    return;
  if (ended.was_superseded)
    return policy_.repeat(ended.name, clock::now());
  was_one_killed_ = true;
  using enum restart_policy::decision;
  const auto decision = policy_.on_killed(ended.name, clock::now());
  if (ended.has_lost_device)
    without_device_.insert(ended.name);
  else
    without_device_.erase(ended.name);
  if (decision == restart || decision == cancelled)
    return;
  if (begin_together_ && !ended.job_had_begun)
    lost_in_start_ = ended;
  if (std::exchange(has_given_up_, true) || !is_enabled_)
    return;
  std::cerr << "warning: " << ended.name << end_of(ended.name)
            << " and is not started again, because "
            << (decision == used_up ? "all restarts are used up"
                                    : "processes are killed too often")
            << "; since the start: " << events_ << '\n';
}

/// Says how a process has ended that may be started again.
const char* worker_restarts::end_of(const std::string& name) const {
  return without_device_.contains(name)
           ? " has ended, because its device failed"
           : " was killed";
}

bool worker_restarts::is_loss(const process_exit& failed) {
  if (!begin_together_ || policy_.is_cancelled())
    return false;
  using enum failure_effect;
  const auto effect =
    effect_of(failed, was_one_killed_, is_enabled_ && !has_given_up_);
  all_start_ |= effect == all_start_again;
  if (effect == joins_again)
    policy_.repeat(failed.name, clock::now());
  return effect != ends_job;
}

/// Ends the job if it can no longer begin, or has lost its state.
void worker_restarts::end_if_lost(child_processes& children) {
  const auto outlook =
    children.has_foreign_worker()
      ? job_outlook::goes_on
      : outlook_of(children.has_begun(), children.running_processes());
  if (outlook == job_outlook::all_left)
    children.expect_end();
  if (lost_in_start_ && !children.has_begun()) {
    loss_ = {*lost_in_start_,
             "it was lost before the job had begun, and is not started again"};
  } else if (outlook == job_outlook::lacks_state || !children.running()) {
    const auto& ends = children.ended();
    const auto last =
      std::find_if(ends.rbegin(), ends.rend(),
                   [](const process_exit& x) { return x.had_begun; });
    if (last == ends.rend() || (!children.running() && last->signal == 0))
      return; // one that has left still runs, or was the last one
    std::string names;
    for (const auto& name : children.joining())
      names += (names.empty() ? "" : ", ") + name;
    loss_ = {
      *last,
      "it was the last process with the state of the job"
        + (names.empty() ? "" : ", which " + names + " had not copied yet")};
  }
  if (!loss_)
    return;
  policy_.cancel();
  children.signal(SIGTERM);
}

std::optional<worker_restarts::clock::time_point>
worker_restarts::start_due(local_launcher& launcher,
                           const start_function& start) {
  auto& children = launcher.children();
  const bool ends = children.first_failure() || children.is_job_done();
  if (begin_together_ && !ends && !loss_ && !policy_.is_cancelled())
    end_if_lost(children);
  // Without a running worker there is no job to join. A worker that has ended
  // by itself says that the job ends, unless it could not join it.
  const bool is_over =
    !children.running() && (children.has_begun() || !begin_together_);
  if (is_over || ends)
    policy_.cancel();
  if (all_start_ && !policy_.is_cancelled())
    return start_all(launcher, start);
  while (const auto name = policy_.take(clock::now())) {
    std::cerr << "warning: " << *name << end_of(*name)
              << "; it is started again"
              << (children.has_begun() ? " and asks to join the job\n" : "\n");
    start_one(*name, start);
  }
  return policy_.next();
}

/// Ends all workers, and then starts them again.
std::optional<worker_restarts::clock::time_point>
worker_restarts::start_all(local_launcher& launcher,
                           const start_function& start) {
  policy_.clear();
  auto& children = launcher.children();
  if (children.running()) {
    children.supersede();
    return {};
  }
  if (!all_due_)
    all_due_ = clock::now() + restart_policy::first_delay;
  if (clock::now() < *all_due_)
    return all_due_;
  std::cerr << "warning: a worker was lost before the job had begun; all are "
               "started again\n";
  was_one_killed_ = all_start_ = false;
  all_due_.reset();
  for (const auto& name : launcher.names())
    start_one(name, start);
  return policy_.next();
}

void worker_restarts::start_one(const std::string& name,
                                const start_function& start) {
  try {
    start(name);
    note(name + " was started again");
  } catch (const std::exception& e) { // the job goes on with those left
    std::cerr << "warning: " << name
              << " could not be started again: " << e.what() << '\n';
    note(name + " could not be started again");
  }
}
