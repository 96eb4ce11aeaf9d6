#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace troupe::net {

/// Measures the silence of a peer: the time since its last byte. Time during
/// which this process was not scheduled does not count. Otherwise a process
/// that was suspended would consider its peers unreachable.
class failure_detector {
public:
  using clock = std::chrono::steady_clock;

  /// @param max_tick_interval expected maximum time between two ticks.
  failure_detector(clock::time_point now, clock::duration max_tick_interval)
    : max_tick_interval_{max_tick_interval},
      last_received_{now.time_since_epoch().count()},
      last_tick_{now} {}

  // -- for one thread ---------------------------------------------------------

  void received(clock::time_point now) {
    last_received_ = now.time_since_epoch().count();
  }

  /// Records that this process is scheduled. The lateness of a call is the time
  /// since the previous call minus `max_tick_interval`. If a call is late by
  /// more than `max_tick_interval`, its lateness does not count as silence.
  void tick(clock::time_point now) {
    const auto late = now - std::exchange(last_tick_, now) - max_tick_interval_;
    if (late > max_tick_interval_)
      last_received_ =
        std::min(last_received_ + late.count(), now.time_since_epoch().count());
  }

  // -- for any thread ---------------------------------------------------------

  std::chrono::milliseconds silence(clock::time_point now) const {
    const auto since = now.time_since_epoch().count() - last_received_;
    return std::chrono::duration_cast<std::chrono::milliseconds>(
      clock::duration{std::max<clock::rep>(since, 0)});
  }

private:
  const clock::duration max_tick_interval_;
  std::atomic<clock::rep> last_received_;
  clock::time_point last_tick_;
};

} // namespace troupe::net
