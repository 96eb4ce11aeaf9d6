#include "troupe/strategies/coordinator/closure_effects.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace troupe::coordinator {

bool closure_effects::store(const execution& from, payload effects,
                            std::uint64_t done_below) {
  forget(done_below);
  if (is_decided(from.ordinal))
    return false;
  waiting_.try_emplace(from, std::move(effects));
  return true;
}

closure_effects::verdict closure_effects::decide(const decision& received) {
  verdict out;
  const auto ordinal = received.execution.ordinal;
  if (!is_decided(ordinal)) {
    const auto found = waiting_.find(received.execution);
    if (found == waiting_.end())
      return {.is_possible = false};
    out.applied = std::move(found->second);
    decided_.insert(ordinal);
  }
  forget(received.done_below);
  return out;
}

effects_image closure_effects::save() const {
  effects_image out{done_below_, {decided_.begin(), decided_.end()}, {}};
  for (const auto& [which, unused] : waiting_)
    out.waiting.push_back(which);
  return out;
}

std::vector<payload> closure_effects::waiting_effects() const {
  std::vector<payload> out;
  for (const auto& [which, effects] : waiting_)
    out.push_back(effects);
  return out;
}

bool closure_effects::restore(const effects_image& from,
                              const std::vector<payload>& effects) {
  const auto is_ascending = [](const auto& all) {
    return std::ranges::adjacent_find(all, std::greater_equal{}) == all.end();
  };
  if (effects.size() != from.waiting.size() || !is_ascending(from.decided)
      || !is_ascending(from.waiting)
      || (!from.decided.empty() && from.decided.front() < from.done_below))
    return false;
  closure_effects made;
  made.done_below_ = from.done_below;
  made.decided_ = {from.decided.begin(), from.decided.end()};
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (made.is_decided(from.waiting[i].ordinal))
      return false;
    made.waiting_.emplace_hint(made.waiting_.end(), from.waiting[i],
                               effects[i]);
  }
  *this = std::move(made);
  return true;
}

/// Forgets all closures below a number, and effects that never take place.
void closure_effects::forget(std::uint64_t done_below) {
  done_below_ = std::max(done_below_, done_below);
  decided_.erase(decided_.begin(), decided_.lower_bound(done_below_));
  std::erase_if(waiting_,
                [&](const auto& x) { return is_decided(x.first.ordinal); });
}

} // namespace troupe::coordinator
