#include "troupe/actors/membership/peers/reconnection.hpp"

#include <algorithm>

namespace troupe::reconnection {

state_machine::state_machine(std::uint32_t task, milliseconds timeout,
                             std::uint64_t seed)
  : task_{task}, timeout_{timeout}, random_{seed} {}

reaction state_machine::on_cut(const process_id& process, time_point now) {
  reaction out;
  auto& cuts = cuts_[process];
  while (!cuts.empty() && now - cuts.front() > cut_window)
    cuts.pop_front();
  if (cuts.size() == max_cuts) {
    out.emplace_back(lost{process});
    return out;
  }
  cuts.push_back(now);
  awaited_[process] = {++timers_, min_dial_delay};
  out.emplace_back(set_timer{process, timers_, timeout_});
  if (task_ > process.task)
    out.emplace_back(dial{process, milliseconds{0}});
  return out;
}

reaction state_machine::on_needed(const process_id& process) {
  reaction out;
  awaited_[process] = {++timers_, min_dial_delay};
  out.emplace_back(set_timer{process, timers_, timeout_});
  out.emplace_back(
    dial{process, task_ > process.task ? milliseconds{0} : timeout_ / 2});
  return out;
}

reaction state_machine::on_dial_failed(const process_id& process,
                                       bool is_final) {
  reaction out;
  const auto it = awaited_.find(process);
  if (it == awaited_.end())
    return out;
  if (is_final) {
    awaited_.erase(it);
    out.emplace_back(lost{process});
    return out;
  }
  const auto longest = it->second.delay;
  std::uniform_int_distribution<milliseconds::rep> any{longest.count() / 2,
                                                       longest.count()};
  out.emplace_back(dial{process, milliseconds{any(random_)}});
  it->second.delay = std::min(2 * longest, max_dial_delay);
  return out;
}

reaction state_machine::on_timeout(const process_id& process,
                                   std::uint64_t number) {
  reaction out;
  const auto it = awaited_.find(process);
  if (it == awaited_.end() || it->second.timer != number)
    return out;
  awaited_.erase(it);
  out.emplace_back(lost{process});
  return out;
}

bool state_machine::awaits_task(std::uint32_t task) const {
  return std::ranges::any_of(
    awaited_, [task](const auto& x) { return x.first.task == task; });
}

reaction state_machine::on_installed(const membership::view& current) {
  reaction out;
  const auto is_other = [&](const auto& x) {
    return !current.contains(x.first.task, x.first.incarnation);
  };
  for (const auto& x : awaited_)
    if (is_other(x))
      out.emplace_back(lost{x.first});
  std::erase_if(awaited_, is_other);
  std::erase_if(cuts_, is_other);
  return out;
}

} // namespace troupe::reconnection
