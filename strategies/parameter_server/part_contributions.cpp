#include "troupe/strategies/parameter_server/part_contributions.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace troupe::parameter_server {

namespace {

bool is_received(const replica_clock& clock, std::uint64_t step) {
  return step < clock.next_step
         || (step > clock.next_step && step - clock.next_step <= max_steps_ahead
             && (clock.later_steps >> (step - clock.next_step - 1) & 1) != 0);
}

/// All steps below `next_step` count as received.
void advance(replica_clock& clock, std::uint64_t next_step) {
  if (next_step <= clock.next_step)
    return;
  const auto skipped = next_step - clock.next_step;
  // Bit i: step next_step + i was received.
  const auto received =
    skipped <= max_steps_ahead ? clock.later_steps >> (skipped - 1) : 0;
  const auto following = std::countr_one(received);
  clock.next_step = next_step + std::uint64_t(following);
  clock.later_steps = following >= 63 ? 0 : received >> (following + 1);
}

/// Notes a step. @pre it is not received, and at most `max_steps_ahead` after
/// the next one.
void receive(replica_clock& clock, std::uint64_t step) {
  if (step == clock.next_step)
    advance(clock, step + 1);
  else
    clock.later_steps |= std::uint64_t{1} << (step - clock.next_step - 1);
}

/// Order of the contributions that wait.
auto key(const contribution& x) {
  return std::tuple{x.pushed.id.step, x.pushed.id.replica};
}

} // namespace

part_contributions::part_contributions(std::uint32_t part,
                                       const consistency& rule,
                                       std::uint32_t replicas)
  : part_{part}, rule_{rule}, clocks_(replicas) {}

push_result part_contributions::check(std::uint32_t replica,
                                      std::uint64_t step) const {
  const auto& clock = clocks_[replica];
  if (step > clock.next_step && step - clock.next_step > max_steps_ahead)
    return push_result::future_step;
  if (rule_.kind == consistency_kind::synchronous
      && step > version_ + max_steps_ahead)
    return push_result::future_step;
  return is_received(clock, step) ? push_result::repeated
                                  : push_result::accepted;
}

std::optional<update> part_contributions::add(const contribution& given) {
  const auto& id = given.pushed.id;
  if (is_decided(id.step))
    return {};
  receive(clocks_[id.replica], id.step);
  if (rule_.kind != consistency_kind::synchronous)
    return update{part_, ++version_, {given}, {}, given.pushed.factors};
  waiting_.insert(std::ranges::upper_bound(waiting_, key(given), {}, key),
                  given);
  return {};
}

bool part_contributions::is_decided(std::uint64_t step) const {
  return rule_.kind == consistency_kind::synchronous && step < version_;
}

bool part_contributions::can_decide(const decision& next) const {
  const auto waits = [&](std::uint32_t replica) {
    return std::ranges::binary_search(waiting_, std::tuple{next.step, replica},
                                      {}, key);
  };
  const auto given = next.contributors.size();
  return next.step == version_ && given > 0
         && given + rule_.backup_workers >= clocks_.size()
         && std::ranges::all_of(next.contributors, waits);
}

update part_contributions::decide(const decision& next) {
  update made{part_, ++version_, {}, {}, next.factors, true};
  // No contribution to an earlier step waits any more.
  const auto end = std::ranges::find_if(waiting_, [&](const contribution& x) {
    return x.pushed.id.step > next.step;
  });
  for (auto x = waiting_.begin(); x != end; ++x) {
    const bool counts =
      std::ranges::binary_search(next.contributors, x->pushed.id.replica);
    (counts ? made.contributions : made.dropped).push_back(std::move(*x));
  }
  waiting_.erase(waiting_.begin(), end);
  for (auto& clock : clocks_)
    advance(clock, version_);
  return made;
}

bool part_contributions::can_read(std::uint32_t replica,
                                  std::uint64_t step) const {
  if (rule_.kind == consistency_kind::synchronous)
    return step <= version_;
  if (step > clocks_[replica].next_step)
    return false;
  return rule_.kind == consistency_kind::asynchronous
         || std::ranges::all_of(clocks_, [&](const replica_clock& x) {
              return step <= x.next_step
                     || step - x.next_step <= rule_.max_staleness;
            });
}

part_state part_contributions::state() const {
  part_state out{version_, clocks_, {}};
  for (const auto& x : waiting_)
    out.waiting.push_back(x.pushed);
  return out;
}

std::vector<payload> part_contributions::waiting_gradients() const {
  std::vector<payload> out;
  for (const auto& x : waiting_)
    out.push_back(x.gradient);
  return out;
}

bool part_contributions::restore(const part_state& from,
                                 std::span<const payload> gradients) {
  if (from.clocks.size() != clocks_.size()
      || gradients.size() != from.waiting.size()
      || (rule_.kind != consistency_kind::synchronous && !from.waiting.empty()))
    return false;
  std::vector<contribution> waiting;
  for (std::size_t i = 0; i < from.waiting.size(); ++i) {
    const auto& x = from.waiting[i];
    if (x.id.part != part_ || x.id.replica >= clocks_.size()
        || x.id.step < from.version
        || !is_received(from.clocks[x.id.replica], x.id.step))
      return false;
    waiting.push_back({x, gradients[i]});
    if (i > 0 && key(waiting[i - 1]) >= key(waiting[i]))
      return false;
  }
  version_ = from.version;
  clocks_ = from.clocks;
  waiting_ = std::move(waiting);
  return true;
}

} // namespace troupe::parameter_server
