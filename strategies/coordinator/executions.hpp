#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

namespace troupe::coordinator {

/// The executions that a worker has begun, or was told to cancel before they
/// began. It begins each of them once, however often `run` arrives.
/// @cost an entry of a set for each execution of a closure that is not below
///       `done_below` of the last `run`. The coordinator bounds their number.
class executions {
public:
  /// @returns true if the worker executes it now.
  bool begin(const run& received) {
    done_below_ = std::max(done_below_, received.done_below);
    known_.erase(known_.begin(), known_.lower_bound({done_below_, 0}));
    return received.execution.ordinal >= done_below_
           && known_.insert(received.execution).second;
  }
  void on(const cancel& received) {
    if (received.execution.ordinal >= done_below_)
      known_.insert(received.execution);
  }
  std::size_t size() const { return known_.size(); }

private:
  std::set<execution> known_;
  std::uint64_t done_below_ = 0;
};

} // namespace troupe::coordinator
