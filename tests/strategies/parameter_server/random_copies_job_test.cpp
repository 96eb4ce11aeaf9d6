#include "troupe/tests/strategies/parameter_server/random_copies_job.hpp"
#include "troupe/tests/strategies/run_random_jobs.hpp"

#include <gtest/gtest.h>

namespace troupe::parameter_server {

namespace {

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

} // namespace

} // namespace troupe::parameter_server
