#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// Replica 1 takes no part in the sum of step 2, the last one.
TEST(FlightRecorder, HasTheVirtualTimesOfASimulatedStall) {
  simulation::simulator sim{7};
  const auto recorder = std::make_shared<flight_recorder>(
    100, [&sim] { return std::int64_t{sim.elapsed().count()}; });
  const auto group = simulation::make_replica_group(
    sim, {.replicas = 2, .step_timeout = 60s, .recorder = recorder});
  const auto step = [](step_context& at) {
    if (at.replica == 1 && at.step == 2)
      return;
    at.contribute(0, tensor::full({4}, 1));
    at.sum(0);
  };
  EXPECT_THROW(group->run({.steps = 3, .step = step, .on_commit = {}}),
               job_error);
  const auto events = recorder->events();
  const auto find = [&](flight_event_kind kind) {
    const auto it = std::ranges::find(events, kind, &flight_event::kind);
    EXPECT_NE(it, events.end()) << to_string(kind);
    return it == events.end() ? flight_event{} : *it;
  };
  const auto begun = find(flight_event_kind::run_begun);
  const auto failed = find(flight_event_kind::run_failed);
  const auto missing = find(flight_event_kind::role_missing);
  EXPECT_GE(failed.time_ns - begun.time_ns, std::int64_t{60'000'000'000});
  EXPECT_EQ(failed.step, 2u);
  EXPECT_EQ(missing.replica, 1u);
  EXPECT_EQ(missing.text, "the sum of bucket 0");
  std::vector<std::uint64_t> committed;
  for (const auto& x : events)
    if (x.kind == flight_event_kind::step_committed)
      committed.push_back(x.step);
  EXPECT_EQ(committed, (std::vector<std::uint64_t>{0, 1}));
}

} // namespace
