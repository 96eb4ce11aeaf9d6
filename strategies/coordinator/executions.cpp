#include "troupe/strategies/coordinator/executions.hpp"

#include <algorithm>
#include <utility>

namespace troupe::coordinator {

bool executions::begin(const run& received) {
  if (!is_current(received.execution))
    return false;
  done_below_ = std::max(done_below_, received.done_below);
  known_.erase(known_.begin(), known_.lower_bound({done_below_, 0}));
  return received.execution.ordinal >= done_below_
         && known_.try_emplace(received.execution).second;
}

/// Enters the life of an execution, if it is newer.
/// @returns false: the life of the execution is over.
bool executions::is_current(const execution& which) {
  if (which.life > life_) {
    life_ = which.life;
    known_.clear();
  }
  return which.life == life_;
}

bool executions::finish(const execution& which, answer with) {
  const auto found = known_.find(which);
  if (found == known_.end() || found->second)
    return false;
  found->second = std::move(with);
  return true;
}

void executions::on(const cancel& received) {
  const auto& which = received.execution;
  if (!is_current(which) || which.ordinal < done_below_)
    return;
  if (auto& answered = known_[which]; !answered)
    answered = answer{stopped{which}};
}

std::optional<answer> executions::answer_to(const execution& which) const {
  if (is_superseded(which) || which.ordinal < done_below_)
    return {};
  const auto found = known_.find(which);
  if (found == known_.end())
    return answer{unknown{which}};
  return found->second;
}

} // namespace troupe::coordinator
