#pragma once

#include "troupe/actors/protocol/run_messages.hpp"

#include <caf/actor_clock.hpp>

namespace troupe {

/// Decides whether an actor sends a batch at once. It does if it has sent none
/// in the last `max_batch_delay`. So slow steps are not delayed, and many fast
/// steps share a batch.
class batch_interval {
public:
  using time_point = caf::actor_clock::time_point;

  bool may_send(time_point now) const { return now >= next_; }

  /// Returns how long a batch waits that is not sent at once.
  caf::timespan delay(time_point now) const {
    return may_send(now) ? caf::timespan{max_batch_delay} : next_ - now;
  }

  void sent(time_point now) { next_ = now + max_batch_delay; }

private:
  time_point next_{};
};

} // namespace troupe
