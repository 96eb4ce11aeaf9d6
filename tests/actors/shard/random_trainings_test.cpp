#include "troupe/actors/core/log.hpp"
#include "troupe/tests/actors/shard/random_training.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string_view>

namespace troupe {
namespace {

TEST(RandomTrainings, CountEachContributionOnceWhileProcessesAreLost) {
  log_to([](log_level, std::string_view) {});
  const auto seeds = test::seeds_of(2'000);
  std::map<std::string_view, std::uint64_t> counts;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto job = make_random_training(seed);
    ASSERT_EQ(job->run(), "") << "seed " << seed;
    for (const auto& [event, times] : job->counts())
      counts[event] += times;
  }
  log_to(nullptr);
  EXPECT_GT(counts["servers lost"], seeds / 4);
  EXPECT_GT(counts["servers cut off from the supervisor"], seeds / 8);
  EXPECT_GT(counts["replicas moved"], seeds / 4);
  EXPECT_GT(counts["servers joined"], seeds / 4);
  EXPECT_GT(counts["chiefs replaced"], seeds / 8);
  EXPECT_GT(counts["chiefs superseded"], seeds / 50);
}

} // namespace
} // namespace troupe
