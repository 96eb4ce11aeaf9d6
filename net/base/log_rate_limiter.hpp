#pragma once

#include "troupe/net/base/log_function.hpp"
#include "troupe/net/base/text.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace troupe::net {

/// Forwards at most 20 log messages per second and severity. Messages beyond
/// that rate are counted, and their number is logged later. Control characters
/// become `?`, so that no message can move a terminal's cursor.
class log_rate_limiter {
public:
  using clock = std::chrono::steady_clock;

  explicit log_rate_limiter(log_function sink) : sink_{std::move(sink)} {}

  /// Forwards a message, or counts it as suppressed.
  void operator()(severity level, const std::string& sentence);

  /// Counts a connection that was evicted during its handshake. `tick` logs the
  /// number.
  void count_evicted() { ++evicted_; }

  /// If the current interval has lasted a second, logs its counts and starts
  /// the next interval. The owner calls `tick` regularly.
  void tick(clock::time_point now);

private:
  static constexpr std::size_t max_per_second = 20;

  log_function sink_;
  clock::time_point since_{};
  struct counter {
    std::size_t emitted = 0, suppressed = 0;
  };
  /// One counter per severity, so that messages of one severity do not suppress
  /// those of another.
  std::array<counter, 2> counters_;
  std::size_t evicted_ = 0;
};

} // namespace troupe::net
