#pragma once

#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace troupe::test {

/// Runs jobs of the seeds from 1 on. Each must keep what it promises, and the
/// faults must have happened.
/// @param all number of seeds; fewer with a sanitizer (`seeds_of`).
/// @param least more events of each kind than this happen with all seeds.
/// @param least_reached the jobs of all seeds reach more orders of events.
template <class Job>
void run_random_jobs(std::uint64_t all,
                     const std::map<std::string_view, std::uint64_t>& least,
                     std::size_t least_reached) {
  const auto seeds = seeds_of(all);
  std::map<std::string_view, std::uint64_t> counts;
  std::set<std::string> reached;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Job job{seed};
    ASSERT_EQ(job.run(), "") << "with seed " << seed;
    for (const auto& [event, times] : job.counts())
      counts[event] += times;
    reached.insert(job.reached().begin(), job.reached().end());
  }
  for (const auto& [event, times] : least)
    EXPECT_GT(counts[event] * all / seeds, times) << event;
  if (seeds == all) {
    EXPECT_GT(reached.size(), least_reached);
  }
}

} // namespace troupe::test
