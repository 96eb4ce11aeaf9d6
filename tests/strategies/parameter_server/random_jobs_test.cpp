#include "troupe/tests/strategies/parameter_server/random_copies_job.hpp"
#include "troupe/tests/strategies/parameter_server/random_server_job.hpp"
#include "troupe/tests/strategies/parameter_server/random_table_job.hpp"
#include "troupe/tests/strategies/run_random_jobs.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

namespace troupe::parameter_server {

namespace {

TEST(ShardFaults, LoseAndRepeatNoContribution) {
  const std::map<std::string_view, std::uint64_t> least{
    {"primaries died", 200},
    {"primaries excluded", 200},
    {"backups died", 100},
    {"backups excluded", 100},
    {"workers died", 200},
    {"workers excluded", 200},
    {"chiefs died", 200},
    {"chiefs excluded", 200},
    {"chiefs lost when shards differed", 30},
    {"chiefs cut off from shards", 100},
    {"chiefs replaced in a view", 200},
    {"chiefs superseded", 30},
    {"processes returned", 200},
    {"processes cut off", 200},
    {"links cut", 200},
    {"divisions of the network", 100},
    {"messages lost by a cut", 1'000},
    {"messages held by a cut", 1'000},
    {"messages lost", 1'000},
    {"messages repeated", 1'000},
    {"messages late", 1'000},
    {"messages overtaking", 1'000},
    {"views missed", 1'000},
    {"promotions", 200},
    {"replicas moved", 500},
    {"repeated pushes", 1'000},
    {"pushes of an older view", 100},
    {"pushes after the decision", 100},
    {"trainings completed", 200},
    {"trainings cut short", 300},
    {"pushes of an ended training", 200},
    {"states kept under a new primary", 50},
    {"reads in place", 1'000},
    {"reads in place that do not count", 1'000},
    {"commands", 1'000},
    {"reads of a client", 1'000},
    {"repeated commands", 1'000},
    {"commands to others", 1'000},
    {"commands beyond a limit", 100},
  };
  test::run_random_jobs<random_server_job>(3'000, least, 1'000);
}

TEST(CopyFaults, LoseAndRepeatNoCommand) {
  const std::map<std::string_view, std::uint64_t> least{
    {"primaries died", 200},      {"primaries lost for the chief", 100},
    {"others died", 50},          {"others lost for the chief", 50},
    {"servers joined", 500},      {"view changes", 1'000},
    {"commands", 10'000},         {"reads", 10'000},
    {"repeated commands", 1'000}, {"commands to others", 1'000},
    {"messages lost", 1'000},     {"messages overtaking", 1'000},
    {"processes cut off", 50},    {"copies of tables compared", 1'000},
  };
  test::run_random_jobs<random_copies_job>(1'000, least, 300);
}

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
