#include "troupe/actors/membership/view_changes/view_change_host.hpp"

#include <algorithm>
#include <variant>

namespace troupe {

void view_change_host::begin(const membership::view& first,
                             std::uint64_t self) {
  machine_.emplace(first, self);
  has_begun_ = true;
}

void view_change_host::begin(const view_change::numbered_proposal& decision,
                             std::uint64_t self) {
  machine_.emplace(decision, self);
  has_begun_ = true;
}

void view_change_host::on_lost(std::uint64_t incarnation, bool was_silent) {
  if (machine_)
    perform(machine_->on_unreachable(incarnation, was_silent));
}

/// What a process has agreed to before it left stays valid, as for a process
/// that has died.
void view_change_host::on_dead(std::uint64_t incarnation) {
  if (machine_)
    perform(machine_->on_dead(incarnation));
}

void view_change_host::on_survivors(
  const std::vector<view_change::process_id>& living) {
  silent_.clear();
  if (machine_)
    perform(machine_->on_survivors(living));
}

void view_change_host::on(const view_change::process_id& sender,
                          const view_change::message& received) {
  if (machine_)
    perform(machine_->on(sender, received));
}

void view_change_host::on_stopped() {
  if (!machine_)
    return;
  if (owner_.defers_candidates())
    machine_->forget_candidates();
  perform(machine_->on_stopped(owner_.stopped_position()));
}

void view_change_host::on_leaving(std::uint64_t incarnation) {
  if (machine_)
    perform(machine_->on_leaving(incarnation));
}

void view_change_host::on_reachable(std::uint64_t incarnation) {
  if (machine_)
    perform(machine_->on_reachable(incarnation));
}

void view_change_host::on_renewal_wanted() {
  if (machine_)
    perform(machine_->on_renewal_wanted());
}

void view_change_host::on_no_lanes(std::uint64_t incarnation, bool is_newer) {
  if (machine_)
    perform(machine_->on_no_lanes(incarnation, is_newer));
}

void view_change_host::on_join(const membership::member& candidate) {
  if (machine_)
    perform(machine_->on_join(candidate));
}

void view_change_host::on_timeout(std::uint64_t number) {
  if (machine_ && number == timer_)
    perform(machine_->on_timeout());
}

// -- effects ------------------------------------------------------------------

void view_change_host::perform(const view_change::reaction& effects) {
  for (const auto& one : effects)
    std::visit([this](const auto& x) { perform(x); }, one);
}

void view_change_host::perform(const view_change::send& x) {
  owner_.send(x.receiver, x.message);
}

void view_change_host::perform(const view_change::stop&) {
  if (owner_.stop_replicas())
    on_stopped();
}

void view_change_host::perform(const view_change::set_timer& x) {
  owner_.set_view_timer(timer_interval * x.intervals, ++timer_);
}

void view_change_host::perform(const view_change::installed& x) {
  silent_.clear();
  owner_.on_installed(x.decision.next);
}

void view_change_host::perform(const view_change::removed& x) {
  owner_.on_removed(x.next, x.left);
}

void view_change_host::perform(const view_change::no_majority& x) {
  // The effect is repeated with each timer.
  if (silent_ == x.silent
      || std::ranges::any_of(x.silent, [this](std::uint32_t task) {
           return owner_.may_have_ended(task);
         }))
    return;
  if (!x.for_long)
    return owner_.on_silence(x.silent);
  silent_ = x.silent;
  owner_.on_no_majority(silent_);
}

void view_change_host::perform(const view_change::state_lost&) {
  owner_.on_state_lost();
}

} // namespace troupe
