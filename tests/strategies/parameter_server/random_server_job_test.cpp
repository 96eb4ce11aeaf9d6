#include "troupe/tests/strategies/parameter_server/random_server_job.hpp"

#include <gtest/gtest.h>

namespace troupe::parameter_server {

namespace {

TEST(ShardFaults, LoseAndRepeatNoContribution) {
  std::uint64_t deaths = 0, exclusions = 0, promotions = 0, repeated = 0,
                stale = 0, dropped = 0, adoptions = 0, successions = 0,
                unfinished = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    random_server_job job{seed};
    const auto problem = job.run();
    ASSERT_EQ(problem, "") << "with seed " << seed;
    deaths += job.deaths();
    exclusions += job.exclusions();
    promotions += job.promotions();
    repeated += job.repeated_pushes();
    stale += job.stale_answers();
    dropped += job.dropped_contributions();
    adoptions += job.adoptions();
    successions += job.successions();
    unfinished += job.unfinished_decisions();
    kept += job.kept_states();
  }
  EXPECT_GT(deaths, 500u);
  EXPECT_GT(exclusions, 500u);
  EXPECT_GT(promotions, 200u);
  EXPECT_GT(repeated, 1'000u);
  EXPECT_GT(stale, 100u);
  EXPECT_GT(dropped, 100u);
  EXPECT_GT(adoptions, 500u);
  EXPECT_GT(successions, 500u);
  EXPECT_GT(unfinished, 100u);
  EXPECT_GT(kept, 50u);
}

} // namespace

} // namespace troupe::parameter_server
