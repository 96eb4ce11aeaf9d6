#pragma once

#include "troupe/net/base/log_function.hpp"
#include "troupe/net/base/text.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace troupe::net {

/// Forwards log messages at a limited rate per severity, then the number of
/// suppressed ones. Control characters are removed, so that no message can move
/// a terminal's cursor.
class log_limiter {
public:
  using clock = std::chrono::steady_clock;

  explicit log_limiter(log_function to) : to_{std::move(to)} {}

  /// Forwards a message, or counts it as suppressed.
  void operator()(severity how, const std::string& sentence);

  /// Counts an evicted connection; `tick` logs the number.
  void pushed_out() { ++pushed_out_; }

  /// Starts a new interval once a second has passed. To be called regularly.
  void tick(clock::time_point now);

private:
  static constexpr std::size_t most_per_second = 20;

  log_function to_;
  clock::time_point since_{};
  struct tally {
    std::size_t said = 0, unsaid = 0;
  };
  /// By severity, so that one severity cannot suppress the other.
  std::array<tally, 2> of_;
  std::size_t pushed_out_ = 0;
};

} // namespace troupe::net
