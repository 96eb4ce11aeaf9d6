#include "troupe/strategies/coordinator/closure_effects.hpp"

#include <algorithm>
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

/// Forgets all closures below a number, and effects that never take place.
void closure_effects::forget(std::uint64_t done_below) {
  done_below_ = std::max(done_below_, done_below);
  decided_.erase(decided_.begin(), decided_.lower_bound(done_below_));
  std::erase_if(waiting_,
                [&](const auto& x) { return is_decided(x.first.ordinal); });
}

} // namespace troupe::coordinator
