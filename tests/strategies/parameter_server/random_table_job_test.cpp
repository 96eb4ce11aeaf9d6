#include "troupe/tests/strategies/parameter_server/random_table_job.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

namespace troupe::parameter_server {

namespace {

TEST(TableFaults, ChangeNoBitOfARow) {
  const std::uint64_t all = 2'000, seeds = test::seeds_of(all);
  std::map<std::string_view, std::uint64_t> counts;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    random_table_job job{seed};
    const auto problem = job.run();
    ASSERT_EQ(problem, "") << "seed " << seed;
    for (const auto& [event, times] : job.counts())
      counts[event] += times;
  }
  const std::map<std::string_view, std::uint64_t> least{
    {"changes", 20'000},
    {"rows read", 20'000},
    {"rows kept", 5'000},
    {"rows not kept", 5'000},
    {"rows made again", 1'000},
    {"gradients of rows not yet kept", 2'500},
    {"parts restored", 1'000},
    {"messages lost", 1'000},
    {"messages repeated", 1'000},
    {"messages late", 1'000},
    {"messages overtaking", 1'000},
  };
  for (const auto& [event, times] : least)
    EXPECT_GT(counts[event] * all / seeds, times) << event;
}

} // namespace

} // namespace troupe::parameter_server
