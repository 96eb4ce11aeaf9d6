#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace troupe::net {

/// How long nothing was heard of a peer. Who did not listen cannot say that
/// nobody spoke: time in which this process did not run is not counted.
class vigil {
public:
  using clock = std::chrono::steady_clock;

  /// @param beat longest time between two ticks of a process that runs.
  vigil(clock::time_point now, clock::duration beat)
    : beat_{beat}, heard_at_{now.time_since_epoch().count()}, ticked_at_{now} {}

  // -- one thread's -----------------------------------------------------------

  void heard(clock::time_point now) {
    heard_at_ = now.time_since_epoch().count();
  }

  /// A tick that is late by more than a beat grants the peer that time again.
  void tick(clock::time_point now) {
    const auto late = now - std::exchange(ticked_at_, now) - beat_;
    if (late > beat_)
      heard_at_ =
        std::min(heard_at_ + late.count(), now.time_since_epoch().count());
  }

  // -- from any thread --------------------------------------------------------

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
