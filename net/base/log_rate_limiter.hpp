#pragma once

#include "troupe/net/base/log_function.hpp"
#include "troupe/net/base/text.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace troupe::net {

/// Passes sentences on, but no flood of them: so many a second, and then how
/// many others there were. Nothing in them can move a terminal's cursor.
class log_limiter {
public:
  using clock = std::chrono::steady_clock;

  explicit log_limiter(log_function to) : to_{std::move(to)} {}

  void operator()(severity how, const std::string& sentence);

  /// Counts one of a kind that is common; `tick` says how many there were.
  void pushed_out() { ++pushed_out_; }

  /// To be called now and then.
  void tick(clock::time_point now);

private:
  static constexpr std::size_t most_per_second = 20;

  log_function to_;
  clock::time_point since_{};
  struct tally {
    std::size_t said = 0, unsaid = 0;
  };
  std::array<tally, 2> of_; ///< By severity: neither pushes the other out.
  std::size_t pushed_out_ = 0;
};

} // namespace troupe::net
