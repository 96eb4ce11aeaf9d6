#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace troupe::net {

/// Measures the time since a peer was last heard from. Time during which this
/// process was not scheduled is excluded, so that a suspended process does not
/// suspect its peers.
class vigil {
public:
  using clock = std::chrono::steady_clock;

  /// @param max_tick_interval maximum time between two ticks while this process
  ///                          is scheduled.
  vigil(clock::time_point now, clock::duration beat)
    : beat_{beat}, heard_at_{now.time_since_epoch().count()}, ticked_at_{now} {}

  // -- for one thread ---------------------------------------------------------

  void heard(clock::time_point now) {
    heard_at_ = now.time_since_epoch().count();
  }

  /// Records that this process runs. If a tick is late by more than one
  /// interval, the delay does not count as silence.
  void tick(clock::time_point now) {
    const auto late = now - std::exchange(ticked_at_, now) - beat_;
    if (late > beat_)
      heard_at_ =
        std::min(heard_at_ + late.count(), now.time_since_epoch().count());
  }

  // -- for any thread ---------------------------------------------------------

  std::chrono::milliseconds silence(clock::time_point now) const {
    const auto since = now.time_since_epoch().count() - heard_at_;
    return std::chrono::duration_cast<std::chrono::milliseconds>(
      clock::duration{std::max<clock::rep>(since, 0)});
  }

private:
  const clock::duration beat_;
  std::atomic<clock::rep> heard_at_;
  clock::time_point ticked_at_;
};

} // namespace troupe::net
