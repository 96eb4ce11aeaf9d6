#include "troupe/apps/troupe/launcher/restart_policy.hpp"

#include <algorithm>

restart_policy::decision restart_policy::on_killed(const std::string& name,
                                                   clock::time_point now) {
  while (!recent_.empty() && now - recent_.front() > intensity_window)
    recent_.pop_front();
  if (is_cancelled_)
    return decision::cancelled;
  if (left_ == 0)
    return decision::used_up;
  if (recent_.size() >= max_intensity)
    return decision::too_often;
  --left_;
  recent_.push_back(now);
  schedule(name, now);
  return decision::restart;
}

void restart_policy::repeat(const std::string& name, clock::time_point now) {
  if (!is_cancelled_)
    schedule(name, now);
}

/// Doubles the delay of the process, and starts it after that.
void restart_policy::schedule(const std::string& name, clock::time_point now) {
  auto& delay = delays_[name];
  delay = delay.count() == 0 ? first_delay : std::min(2 * delay, last_delay);
  std::uniform_real_distribution<double> share{0.5, 1.0};
  due_.emplace(
    now + std::chrono::duration_cast<clock::duration>(delay * share(dice_)),
    name);
}

std::optional<std::string> restart_policy::take(clock::time_point now) {
  if (due_.empty() || due_.begin()->first > now)
    return {};
  auto name = std::move(due_.begin()->second);
  due_.erase(due_.begin());
  return name;
}

std::optional<restart_policy::clock::time_point> restart_policy::next() const {
  if (due_.empty())
    return {};
  return due_.begin()->first;
}

failure_effect effect_of(const process_exit& failed, bool was_one_killed,
                         bool can_restart) {
  using enum failure_effect;
  // One that has begun, or joins, does not depend on the start of another.
  if (!was_one_killed || failed.had_begun || failed.joined)
    return ends_job;
  if (failed.job_had_begun)
    return can_restart ? joins_again : none;
  return can_restart ? all_start_again : ends_job;
}

job_outlook outlook_of(bool has_begun, std::span<const job_process> running) {
  using enum job_outlook;
  if (running.empty() || !has_begun)
    return goes_on;
  if (std::ranges::all_of(running, &job_process::has_left))
    return all_left;
  const auto may_go_on = [](const job_process& x) {
    return !x.has_left && (x.has_begun || !x.joins);
  };
  return std::ranges::any_of(running, may_go_on) ? goes_on : lacks_state;
}
