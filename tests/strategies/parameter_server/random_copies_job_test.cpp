#include "troupe/tests/strategies/parameter_server/random_copies_job.hpp"

#include <gtest/gtest.h>

namespace troupe::parameter_server {

namespace {

TEST(CopyFaults, LoseAndRepeatNoCommand) {
  std::map<std::string_view, std::uint64_t> counts;
  std::set<std::string> reached;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    random_copies_job job{seed};
    const auto problem = job.run();
    ASSERT_EQ(problem, "") << "with seed " << seed;
    for (const auto& [event, times] : job.counts())
      counts[event] += times;
    reached.insert(job.reached().begin(), job.reached().end());
  }
  const std::map<std::string_view, std::uint64_t> least{
    {"primaries died", 200},      {"primaries lost for the chief", 100},
    {"others died", 50},          {"others lost for the chief", 50},
    {"servers joined", 500},      {"view changes", 1'000},
    {"commands", 10'000},         {"reads", 10'000},
    {"repeated commands", 1'000}, {"commands to others", 1'000},
    {"messages lost", 1'000},     {"messages overtaking", 1'000},
    {"processes cut off", 50},    {"copies of tables compared", 1'000},
  };
  for (const auto& [event, times] : least)
    EXPECT_GT(counts[event], times) << event;
  EXPECT_GT(reached.size(), 300u);
}

} // namespace

} // namespace troupe::parameter_server
