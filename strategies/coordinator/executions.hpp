#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace troupe::coordinator {

/// The executions that a worker has begun, or was told to cancel before they
/// began. It begins each of them once, however often `run` arrives, and none of
/// an older life of the coordinator than the newest of which it has heard.
/// @cost an entry of a set for each execution of a closure that is not below
///       `done_below` of the last `run`. The coordinator bounds their number.
class executions {
public:
  /// The host stops what `is_superseded` afterwards.
  /// @returns true if the worker executes it now.
  bool begin(const run& received) {
    if (!is_current(received.execution))
      return false;
    done_below_ = std::max(done_below_, received.done_below);
    known_.erase(known_.begin(), known_.lower_bound({done_below_, 0}));
    return received.execution.ordinal >= done_below_
           && known_.insert(received.execution).second;
  }
  void on(const cancel& received) {
    if (is_current(received.execution)
        && received.execution.ordinal >= done_below_)
      known_.insert(received.execution);
  }
  /// True if the life that has begun the execution is over: a newer one has
  /// sent `run` or `cancel`. The worker stops the execution, and sends nothing.
  bool is_superseded(const execution& which) const {
    return which.life < life_;
  }
  std::size_t size() const { return known_.size(); }

private:
  /// Enters the life of an execution, if it is newer.
  bool is_current(const execution& which) {
    if (which.life > life_) {
      life_ = which.life;
      known_.clear();
    }
    return which.life == life_;
  }

  std::set<execution> known_; ///< Of the life `life_`.
  std::uint64_t done_below_ = 0;
  std::uint64_t life_ = 0;
};

} // namespace troupe::coordinator
