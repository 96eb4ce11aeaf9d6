#include "troupe/tests/strategies/random_jobs.hpp"

#include <gtest/gtest.h>

namespace troupe {

namespace {

TEST(RandomJobs, OfOneSeedAreEqual) {
  for (const auto& protocol : job_protocols())
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto first = protocol.make(seed), second = protocol.make(seed);
      EXPECT_EQ(first->run(), second->run()) << protocol.name << ' ' << seed;
      EXPECT_EQ(first->counts(), second->counts())
        << protocol.name << ' ' << seed;
      EXPECT_EQ(first->reached(), second->reached())
        << protocol.name << ' ' << seed;
    }
}

} // namespace

} // namespace troupe
