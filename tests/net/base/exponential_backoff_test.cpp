#include "troupe/net/base/exponential_backoff.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace {

using namespace troupe::net;
using namespace std::chrono_literals;

TEST(ExponentialBackoff, DrawsFromTheUpperHalfOfABoundThatDoublesUpToAMaximum) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  exponential_backoff delays{{.min_bound = 100ms, .max_bound = 1500ms}, seed};
  for (const auto bound : {100ms, 200ms, 400ms, 800ms, 1500ms, 1500ms}) {
    const auto delay = delays.next();
    EXPECT_GE(delay, bound / 2);
    EXPECT_LE(delay, bound);
  }
  delays.reset();
  EXPECT_LE(delays.next(), 100ms);
}

TEST(ExponentialBackoff, DelaysDifferBetweenSeeds) {
  std::set<std::chrono::milliseconds> found;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    found.insert(
      exponential_backoff{{.min_bound = 1000ms, .max_bound = 1000ms}, seed}
        .next());
  EXPECT_GT(found.size(), 10u);
}

TEST(ExponentialBackoff, DelaysOfASeedAreRepeatable) {
  exponential_backoff one{{}, 7}, other{{}, 7};
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(one.next(), other.next());
}

} // namespace
