#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace troupe::net {

/// The delays before the attempts of a process that tries again. Each bound is
/// twice the one before, up to a maximum. A delay is drawn from the upper half
/// of [0, bound], so that many processes do not try at the same times.
class exponential_backoff {
public:
  struct limits {
    std::chrono::milliseconds min_bound{100};
    std::chrono::milliseconds max_bound{10'000};
  };

  /// @param seed seed of the random draws.
  exponential_backoff(const limits& bounds, std::uint64_t seed)
    : bounds_{bounds}, bound_{bounds.min_bound}, random_{seed} {}

  /// Returns the delay before the next attempt.
  std::chrono::milliseconds next() {
    const auto bound = bound_;
    bound_ = std::min(2 * bound_, bounds_.max_bound);
    std::uniform_int_distribution<std::int64_t> draw{bound.count() / 2,
                                                     bound.count()};
    return std::chrono::milliseconds{draw(random_)};
  }

  /// Begins with the smallest bound again, after an attempt that succeeded.
  void reset() { bound_ = bounds_.min_bound; }

private:
  limits bounds_;
  std::chrono::milliseconds bound_;
  std::mt19937_64 random_;
};

} // namespace troupe::net
