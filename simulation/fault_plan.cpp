#include "troupe/simulation/fault_plan.hpp"

#include "troupe/actors/faults/message_fault.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::simulation {

namespace {

/// Maximum number of messages between the first message of a step and a fault
/// that is set for that step.
constexpr std::size_t max_messages_before_fault = 12;

std::uint64_t step_of(const fault& one) {
  return std::get<at_step>(*one.when).step;
}

} // namespace

random_fault_injector::counts&
random_fault_injector::counts::operator+=(const counts& other) {
  kills += other.kills;
  drops += other.drops;
  duplicates += other.duplicates;
  delays += other.delays;
  cuts += other.cuts;
  slowed += other.slowed;
  return *this;
}

random_fault_injector::random_fault_injector(const faults& plan,
                                             std::uint64_t seed)
  : rng_{seed} {
  if (const auto problem =
        problem_of(plan, {injection::plan_scope::place::simulator}))
    throw std::invalid_argument("a plan for the simulator: " + *problem);
  for (const auto& one : plan.list())
    if (one.is_of_messages())
      message_faults_.push_back(one);
    else
      (one.kind == fault_kind::kill ? kills_ : network_faults_)
        .push_back({{}, one});
}

/// In the first call in which `sent` is true, draws the number of messages
/// after which the fault occurs.
/// @param sent true if the current message is of the fault's step or a later
///             one, and a replica of the fault has sent it.
void random_fault_injector::schedule(scheduled_fault& fault, bool sent) {
  if (!fault.due && sent)
    fault.due = messages_ + rng_() % (max_messages_before_fault + 1);
}

bool random_fault_injector::take_if_due(scheduled_fault& fault) const {
  return fault.due && messages_ >= *fault.due
         && !std::exchange(fault.occurred, true);
}

bool random_fault_injector::is_hosted_by(const role_id& role,
                                         std::uint32_t process) const {
  return role.role == role_id::kind::replica && placement_
         && role.id < placement_->replicas()
         && placement_->process_of(role.id) == process;
}

fault_injector::injected_fault
random_fault_injector::on_send(const role_id& sender, const role_id& receiver,
                               message_kind, std::uint64_t,
                               std::uint64_t step) {
  ++messages_;
  const auto counted = steps()->user_step_of(step);
  const auto has_begun = [&](const fault& one) {
    return counted && *counted >= step_of(one);
  };
  for (auto& one : kills_)
    schedule(one, sender == replica_id(*one.planned.replica)
                    && has_begun(one.planned));
  for (auto& one : network_faults_)
    schedule(one, is_hosted_by(sender, *one.planned.process)
                    && has_begun(one.planned));
  injected_fault out;
  for (const auto& fault : message_faults_)
    if (occurs_to_message(fault, sender, receiver, rng_))
      apply_fault(fault, rng_, out);
  fired.drops += out.dropped;
  fired.duplicates += out.duplicated && !out.dropped;
  fired.delays += out.delay.count() > 0 && !out.dropped;
  return out;
}

std::optional<std::uint32_t> random_fault_injector::next_kill() {
  for (auto& one : kills_)
    if (take_if_due(one)) {
      ++fired.kills;
      return one.planned.replica;
    }
  return std::nullopt;
}

std::optional<fault> random_fault_injector::next_network_fault() {
  for (auto& one : network_faults_)
    if (take_if_due(one)) {
      ++(one.planned.kind == fault_kind::clog ? fired.slowed : fired.cuts);
      return one.planned;
    }
  return std::nullopt;
}

} // namespace troupe::simulation
