#include "troupe/tests/strategies/coordinator/random_coordinator_job.hpp"
#include "troupe/tests/strategies/run_random_jobs.hpp"

#include <gtest/gtest.h>

namespace troupe::coordinator {

namespace {

TEST(CoordinatorFaults, EachTaskCountsOnce) {
  const std::map<std::string_view, std::uint64_t> least{
    {"executions", 30'000},
    {"workers died", 300},
    {"workers given up", 300},
    {"workers found again", 300},
    {"workers added", 300},
    {"processes cut off", 200},
    {"links cut", 200},
    {"divisions of the network", 100},
    {"messages lost by a cut", 1'000},
    {"messages held by a cut", 1'000},
    {"messages late", 1'000},
    {"messages overtaking", 1'000},
    {"errors", 500},
    {"effects after the decision", 100},
    {"runs that were lost", 1'000},
    {"coordinators lost", 2'000},
    {"ends found in the records", 5'000},
    {"errors found in the records", 300},
  };
  test::run_random_jobs<random_coordinator_job>(3'000, least, 300);
}

} // namespace

} // namespace troupe::coordinator
