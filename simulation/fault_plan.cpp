#include "troupe/simulation/fault_plan.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::simulation {

namespace {

/// After how many messages at most a replica dies in the step it entered.
constexpr std::size_t last_words = 12;

bool is(const party& x, std::uint32_t replica) {
  return x == party{party::role::replica, replica};
}

} // namespace

faults& faults::kill(replica who, at_step when) {
  kills_.push_back({who.id, when.step});
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
    throw std::invalid_argument("a fault with chance " + std::to_string(x.of)
                                + ": chances are from 0 to 1");
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
  return *this;
}

fault_dice::fault_dice(faults plan, std::uint64_t seed)
  : plan_{std::move(plan)}, rng_{seed} {
  for (const auto& x : plan_.kills())
    doomed_.push_back({x, {}, false});
}

bool fault_dice::happens(double chance) {
  // 53 bits, as doubles have: the same on every machine.
  return static_cast<double>(rng_() >> 11) * 0x1p-53 < chance;
}

fault_seam::fate fault_dice::decide(const party& from, const party& to, subject,
                                    std::uint64_t, std::uint64_t step) {
  ++messages_;
  for (auto& x : doomed_)
    if (!x.dies_at && is(from, x.why.who) && step >= x.why.step)
      x.dies_at = messages_ + rng_() % (last_words + 1);
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
  for (auto& x : doomed_)
    if (!x.dead && x.dies_at && messages_ >= *x.dies_at) {
      x.dead = true;
      ++fired.kills;
      return x.why.who;
    }
  return std::nullopt;
}

} // namespace troupe::simulation
