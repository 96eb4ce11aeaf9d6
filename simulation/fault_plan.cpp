#include "troupe/simulation/fault_plan.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::simulation {

namespace {

/// Maximum number of messages between the first message of a step and a fault
/// that is set for that step.
constexpr std::size_t last_words = 12;

bool is(const party& x, std::uint32_t replica) {
  return x == party{party::role::replica, replica};
}

} // namespace

faults& faults::kill(replica who, at_step when) {
  kills_.push_back({who.id, when.step});
  return *this;
}

faults& faults::cut(process who, at_step when) {
  blows_.push_back({blow::kind::cut, who.id, when.step});
  return *this;
}

faults& faults::isolate(process who, at_step when) {
  blows_.push_back({blow::kind::isolate, who.id, when.step});
  return *this;
}

faults& faults::slow(process who, at_step when, double times) {
  if (!(times >= 1 && times <= 1e9))
    throw std::invalid_argument("a process slowed down by a factor of "
                                + std::to_string(times) + ": give 1 to 1e9");
  blows_.push_back({blow::kind::slow, who.id, when.step, times});
  return *this;
}

faults& faults::drop(double chance) {
  return add({kind::drop, {}, chance, {}});
}

faults& faults::drop(replica who, double chance) {
  return add({kind::drop, who.id, chance, {}});
}

faults& faults::duplicate(double chance) {
  return add({kind::duplicate, {}, chance, {}});
}

faults& faults::duplicate(replica who, double chance) {
  return add({kind::duplicate, who.id, chance, {}});
}

faults& faults::delay(double chance, duration longest) {
  return add({kind::delay, {}, chance, longest});
}

faults& faults::delay(replica who, double chance, duration longest) {
  return add({kind::delay, who.id, chance, longest});
}

faults& faults::add(const chance& x) {
  if (!(x.of >= 0 && x.of <= 1))
    throw std::invalid_argument("a fault with probability "
                                + std::to_string(x.of) + ": give 0 to 1");
  if (x.what == kind::delay && x.longest <= duration{0})
    throw std::invalid_argument("a delay of at most "
                                + std::to_string(x.longest.count())
                                + " ns: give 1 ns or more");
  chances_.push_back(x);
  return *this;
}

fault_dice::counts& fault_dice::counts::operator+=(const counts& x) {
  kills += x.kills;
  drops += x.drops;
  duplicates += x.duplicates;
  delays += x.delays;
  cuts += x.cuts;
  slowed += x.slowed;
  return *this;
}

fault_dice::fault_dice(faults plan, std::uint64_t seed)
  : plan_{std::move(plan)},
    deaths_(plan_.kills().size()),
    blows_(plan_.blows().size()),
    rng_{seed} {}

bool fault_dice::happens(double chance) {
  // 53 bits, the precision of a double, so the result is the same everywhere.
  return static_cast<double>(rng_() >> 11) * 0x1p-53 < chance;
}

/// Draws when the fault occurs, on the first message of its step.
/// @param spoken its replica, or one of its process, sent a message in the
/// step.
void fault_dice::look(appointment& x, bool spoken) {
  if (!x.due && spoken)
    x.due = messages_ + rng_() % (last_words + 1);
}

bool fault_dice::comes(appointment& x) const {
  return x.due && messages_ >= *x.due && !std::exchange(x.kept, true);
}

bool fault_dice::is_in(const party& x, std::uint32_t process) const {
  return x.what == party::role::replica && process + 1 < first_.size()
         && x.id >= first_[process] && x.id < first_[process + 1];
}

fault_seam::fate fault_dice::decide(const party& from, const party& to, subject,
                                    std::uint64_t, std::uint64_t step) {
  ++messages_;
  for (std::size_t i = 0; i < deaths_.size(); ++i)
    look(deaths_[i],
         is(from, plan_.kills()[i].who) && step >= plan_.kills()[i].step);
  for (std::size_t i = 0; i < blows_.size(); ++i)
    look(blows_[i],
         is_in(from, plan_.blows()[i].who) && step >= plan_.blows()[i].step);
  fate out;
  for (const auto& x : plan_.chances()) {
    if ((x.who && !is(from, *x.who) && !is(to, *x.who)) || !happens(x.of))
      continue;
    switch (x.what) {
      case faults::kind::drop:
        out.dropped = true;
        break;
      case faults::kind::duplicate:
        out.twice = true;
        break;
      case faults::kind::delay:
        out.delay = faults::duration{static_cast<faults::duration::rep>(
          1 + rng_() % static_cast<std::uint64_t>(x.longest.count()))};
        break;
    }
  }
  fired.drops += out.dropped;
  fired.duplicates += out.twice && !out.dropped;
  fired.delays += out.delay.count() > 0 && !out.dropped;
  return out;
}

std::optional<std::uint32_t> fault_dice::victim() {
  for (std::size_t i = 0; i < deaths_.size(); ++i)
    if (comes(deaths_[i])) {
      ++fired.kills;
      return plan_.kills()[i].who;
    }
  return std::nullopt;
}

std::optional<faults::blow> fault_dice::next_blow() {
  for (std::size_t i = 0; i < blows_.size(); ++i)
    if (comes(blows_[i])) {
      const auto& x = plan_.blows()[i];
      ++(x.what == faults::blow::kind::slow ? fired.slowed : fired.cuts);
      return x;
    }
  return std::nullopt;
}

} // namespace troupe::simulation
