#include "troupe/simulation/fault_plan.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::simulation {

namespace {

/// Maximum number of messages between the first message of a step and a fault
/// that is set for that step.
constexpr std::size_t max_messages_before_fault = 12;

bool is_replica(const role_id& role, std::uint32_t replica) {
  return role == role_id{role_id::kind::replica, replica};
}

} // namespace

faults& faults::kill(replica target, at_step when) {
  kills_.push_back({target.id, when.step});
  return *this;
}

faults& faults::disconnect(process target, at_step when) {
  network_faults_.push_back(
    {network_fault::kind::disconnect, target.id, when.step});
  return *this;
}

faults& faults::partition(process target, at_step when) {
  network_faults_.push_back(
    {network_fault::kind::partition, target.id, when.step});
  return *this;
}

faults& faults::clog(process target, at_step when, double factor) {
  if (!(factor >= 1 && factor <= 1e9))
    throw std::invalid_argument("a process slowed down by a factor of "
                                + std::to_string(factor) + ": give 1 to 1e9");
  network_faults_.push_back(
    {network_fault::kind::clog, target.id, when.step, factor});
  return *this;
}

faults& faults::drop(double probability) {
  return add({kind::drop, {}, probability, {}});
}

faults& faults::drop(replica target, double probability) {
  return add({kind::drop, target.id, probability, {}});
}

faults& faults::duplicate(double probability) {
  return add({kind::duplicate, {}, probability, {}});
}

faults& faults::duplicate(replica target, double probability) {
  return add({kind::duplicate, target.id, probability, {}});
}

faults& faults::delay(double probability, duration max_delay) {
  return add({kind::delay, {}, probability, max_delay});
}

faults& faults::delay(replica target, double probability, duration max_delay) {
  return add({kind::delay, target.id, probability, max_delay});
}

faults& faults::add(const message_fault& fault) {
  if (!(fault.probability >= 0 && fault.probability <= 1))
    throw std::invalid_argument("a fault with probability "
                                + std::to_string(fault.probability)
                                + ": give 0 to 1");
  if (fault.type == kind::delay && fault.max_delay <= duration{0})
    throw std::invalid_argument("a delay of at most "
                                + std::to_string(fault.max_delay.count())
                                + " ns: give 1 ns or more");
  message_faults_.push_back(fault);
  return *this;
}

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

random_fault_injector::random_fault_injector(faults plan, std::uint64_t seed)
  : plan_{std::move(plan)},
    kills_(plan_.kills().size()),
    network_faults_(plan_.network_faults().size()),
    rng_{seed} {}

bool random_fault_injector::happens(double probability) {
  // 53 bits, the precision of a double: the conversion is exact on all
  // machines.
  return static_cast<double>(rng_() >> 11) * 0x1p-53 < probability;
}

/// In the first call in which `sent` is true, draws the number of messages
/// after which the fault occurs.
/// @param sent true if the current message is of the fault's step or a later
///             step, and its sender is the fault's replica or a replica of the
///             fault's process.
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
  for (std::size_t i = 0; i < kills_.size(); ++i)
    schedule(kills_[i], is_replica(sender, plan_.kills()[i].replica)
                          && step >= plan_.kills()[i].step);
  for (std::size_t i = 0; i < network_faults_.size(); ++i)
    schedule(network_faults_[i],
             is_hosted_by(sender, plan_.network_faults()[i].process)
               && step >= plan_.network_faults()[i].step);
  injected_fault out;
  for (const auto& fault : plan_.message_faults()) {
    if ((fault.replica && !is_replica(sender, *fault.replica)
         && !is_replica(receiver, *fault.replica))
        || !happens(fault.probability))
      continue;
    switch (fault.type) {
      case faults::kind::drop:
        out.dropped = true;
        break;
      case faults::kind::duplicate:
        out.duplicated = true;
        break;
      case faults::kind::delay:
        out.delay = faults::duration{static_cast<faults::duration::rep>(
          1 + rng_() % static_cast<std::uint64_t>(fault.max_delay.count()))};
        break;
    }
  }
  fired.drops += out.dropped;
  fired.duplicates += out.duplicated && !out.dropped;
  fired.delays += out.delay.count() > 0 && !out.dropped;
  return out;
}

std::optional<std::uint32_t> random_fault_injector::next_kill() {
  for (std::size_t i = 0; i < kills_.size(); ++i)
    if (take_if_due(kills_[i])) {
      ++fired.kills;
      return plan_.kills()[i].replica;
    }
  return std::nullopt;
}

std::optional<faults::network_fault>
random_fault_injector::next_network_fault() {
  for (std::size_t i = 0; i < network_faults_.size(); ++i)
    if (take_if_due(network_faults_[i])) {
      const auto& x = plan_.network_faults()[i];
      ++(x.type == faults::network_fault::kind::clog ? fired.slowed
                                                     : fired.cuts);
      return x;
    }
  return std::nullopt;
}

} // namespace troupe::simulation
