#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <string>

// Tests that a fault never gives wrong weights. The run either completes with
// the correct weights, or ends in time with an error that names the fault.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

const auto fault_seeds = test::seeds_of(300);

/// Result of a run of some steps with faults.
struct fault_outcome {
  tensors state; ///< Empty: the run failed.
  std::optional<job_error> error;
  random_fault_injector::counts fired;
  caf::timespan elapsed{};
};

fault_outcome train(const faults& plan, std::uint64_t seed,
                    replica_group_options::reducer_kind reduce_on) {
  simulator sim{seed};
  random_fault_injector injector{plan, seed};
  fault_outcome result;
  {
    const auto group = make_replica_group(
      sim, {.replicas = 3, .step_timeout = 2s, .reducers = reduce_on},
      &injector);
    test::tiny_training training{3};
    const auto step = [&](step_context& at) { training.step(at); };
    try {
      group->run({.steps = 6, .step = step, .on_commit = {}});
      result.state = training.state();
    } catch (const job_error& e) {
      result.error = e;
    }
    result.elapsed = sim.elapsed();
    if (result.error
        && result.error->code == ec::peer_lost) { // the replica stays lost
      EXPECT_THROW(
        group->run(
          {.first_step = 6, .steps = 1, .step = step, .on_commit = {}}),
        job_error);
    }
  }
  result.fired = injector.fired;
  return result;
}

tensors undisturbed() {
  test::tiny_training training{3};
  const auto step = [&](step_context& at) { training.step(at); };
  make_sequential_group({.replicas = 3})
    ->run({.steps = 6, .step = step, .on_commit = {}});
  return training.state();
}

bool mentions(const fault_outcome& x, const std::string& part) {
  return x.error
         && std::string{x.error->what()}.find(part) != std::string::npos;
}

class Faults
  : public ::testing::TestWithParam<replica_group_options::reducer_kind> {};

INSTANTIATE_TEST_SUITE_P(
  Sums, Faults,
  ::testing::Values(replica_group_options::reducer_kind::replica_threads,
                    replica_group_options::reducer_kind::reducer_actors),
  [](const auto& info) {
    return info.param == replica_group_options::reducer_kind::reducer_actors
             ? "by_reducers"
             : "by_replicas";
  });

TEST_P(Faults, AKilledReplicaIsNamedUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= fault_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end =
      train(faults{}.kill(replica{1}, at_step{3}), seed, GetParam());
    ASSERT_EQ(end.fired.kills, 1u);
    ASSERT_TRUE(end.error);
    ASSERT_EQ(end.error->code, ec::peer_lost) << end.error->what();
    ASSERT_TRUE(mentions(end, "replica 1")) << end.error->what();
    ASSERT_LT(end.elapsed,
              caf::timespan{2s}); // a loss is reported without a timeout
  }
}

TEST_P(Faults, ALostMessageGivesAnErrorInTimeOrTheSameBits) {
  const auto expected = undisturbed();
  int finished = 0, stalled = 0;
  for (std::uint64_t seed = 1; seed <= fault_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.drop(0.005), seed, GetParam());
    ASSERT_LT(end.elapsed, caf::timespan{12s});
    if (!end.error) {
      ++finished;
      ASSERT_EQ(difference(end.state, expected), "");
      continue;
    }
    ++stalled;
    ASSERT_GT(end.fired.drops, 0u);
    ASSERT_EQ(end.error->code, ec::stalled) << end.error->what();
    ASSERT_TRUE(mentions(end, "step ")) << end.error->what();
    ASSERT_TRUE(mentions(end, "replica")) << end.error->what();
  }
  EXPECT_GT(finished, int(fault_seeds / 30));
  EXPECT_GT(stalled, int(fault_seeds / 30));
}

} // namespace
} // namespace troupe::simulation
