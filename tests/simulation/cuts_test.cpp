#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <string>

// Tests that the disconnection of a process aborts the runs of all other
// processes in time. The errors name the process, the operation and the step.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

const auto cut_seeds = test::seeds_of(100);

constexpr std::uint64_t steps = 8;

/// Errors of all processes in one run, and the result of the run.
struct outcome {
  std::vector<std::optional<job_error>> errors; ///< By process.
  tensors state;
  random_fault_injector::counts fired;
  caf::timespan elapsed{};
};

outcome train(const faults& plan, std::uint64_t seed, std::uint32_t replicas,
              std::uint32_t process_count) {
  simulator sim{seed};
  random_fault_injector injector{plan, seed};
  outcome result;
  result.errors.resize(process_count);
  {
    simulated_processes processes{sim,
                                  {.replicas = replicas, .step_timeout = 10s},
                                  {process_count, {}},
                                  &injector};
    test::tiny_training training{replicas};
    const auto step = [&](step_context& at) { training.step(at); };
    processes.run_all([&](std::uint32_t p) {
      try {
        processes.group_of(p).run(
          {.steps = steps, .step = step, .on_commit = {}});
      } catch (const job_error& e) {
        result.errors[p] = e;
      }
    });
    result.elapsed = sim.elapsed();
    result.state = training.state();
  }
  result.fired = injector.fired;
  return result;
}

bool mentions(const std::optional<job_error>& x, const std::string& part) {
  return x && std::string{x->what()}.find(part) != std::string::npos;
}

struct cut_case {
  std::uint32_t replicas, processes, victim;
};

at_step some_step(std::uint64_t seed) {
  return {1 + seed % (steps - 3)};
}

class Cuts : public ::testing::TestWithParam<cut_case> {
protected:
  /// Expects that the errors of all other processes name the process that was
  /// disconnected, the operation and the step.
  static void expect_named(const outcome& end, ec code) {
    const auto [replicas, process_count, victim] = GetParam();
    ASSERT_EQ(end.fired.cuts, 1u);
    for (std::uint32_t p = 0; p < process_count; ++p) {
      SCOPED_TRACE("process " + std::to_string(p));
      ASSERT_TRUE(end.errors[p]);
      const std::string text = end.errors[p]->what();
      ASSERT_EQ(end.errors[p]->code, code) << text;
      if (p == victim)
        continue;
      ASSERT_TRUE(mentions(end.errors[p], "process " + std::to_string(victim)))
        << text;
      ASSERT_TRUE(mentions(end.errors[p], "step ")) << text;
      ASSERT_TRUE(mentions(end.errors[p], "the sum of bucket")) << text;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Victims, Cuts,
                         ::testing::Values(cut_case{2, 2, 1}, cut_case{2, 2, 0},
                                           cut_case{3, 3, 1}, cut_case{4, 3, 2},
                                           cut_case{5, 4, 0}),
                         [](const auto& info) {
                           return std::to_string(info.param.victim) + "of"
                                  + std::to_string(info.param.processes);
                         });

TEST_P(Cuts, ADisconnectedProcessIsNamedByAllOthersAtOnce) {
  const auto [replicas, process_count, victim] = GetParam();
  for (std::uint64_t seed = 1; seed <= cut_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end =
      train(faults{}.disconnect(process{victim}, some_step(seed)), seed,
            replicas, process_count);
    expect_named(end, ec::peer_lost);
    if (HasFatalFailure())
      return;
    ASSERT_LT(end.elapsed, 1s); // a loss is reported without a timeout
  }
}

TEST_P(Cuts, APartitionedProcessIsNamedAfterTheHeartbeatTimeout) {
  const auto [replicas, process_count, victim] = GetParam();
  for (std::uint64_t seed = 1; seed <= cut_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.partition(process{victim}, some_step(seed)),
                           seed, replicas, process_count);
    expect_named(end, ec::unreachable);
    if (HasFatalFailure())
      return;
    // 1 s is the default of network_options::heartbeat_timeout
    ASSERT_GE(end.elapsed, 1s);
    ASSERT_LT(end.elapsed, 3s);
  }
}

TEST_P(Cuts, EveryProcessEndsInTimeIfOneIsCutOffAtTheStart) {
  const auto [replicas, process_count, victim] = GetParam();
  for (std::uint64_t seed = 1; seed <= cut_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto plan = seed % 2
                        ? faults{}.disconnect(process{victim}, at_step{0})
                        : faults{}.partition(process{victim}, at_step{0});
    const auto end = train(plan, seed, replicas, process_count);
    ASSERT_EQ(end.fired.cuts, 1u);
    for (std::uint32_t p = 0; p < process_count; ++p) {
      ASSERT_TRUE(end.errors[p]) << p;
      if (p != victim) {
        ASSERT_TRUE(
          mentions(end.errors[p], "process " + std::to_string(victim)))
          << end.errors[p]->what();
      }
    }
    ASSERT_LT(end.elapsed, 3s);
  }
}

TEST(CutsOfOneGroup, ThrowTheErrorOfASurvivor) {
  for (const std::uint32_t victim : {0u, 1u}) {
    simulator sim{1};
    random_fault_injector injector{
      faults{}.disconnect(process{victim}, at_step{2}), 1};
    const auto on =
      make_replica_group(sim, {.replicas = 2}, {2, {}}, &injector);
    test::tiny_training training{2};
    const auto step = [&](step_context& at) { training.step(at); };
    try {
      on->run({.steps = steps, .step = step, .on_commit = {}});
      ADD_FAILURE() << "the run did not fail";
    } catch (const job_error& e) {
      EXPECT_TRUE(mentions(e, "process " + std::to_string(victim))) << e.what();
    }
    EXPECT_EQ(injector.fired.cuts, 1u);
  }
}

TEST(LossesOverProcesses, AKilledReplicaIsNamedUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= cut_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.kill(replica{2}, at_step{3}), seed, 3, 2);
    ASSERT_EQ(end.fired.kills, 1u);
    for (const auto& why : end.errors) {
      ASSERT_TRUE(why);
      ASSERT_EQ(why->code, ec::peer_lost) << why->what();
      ASSERT_TRUE(mentions(why, "process 1")) << why->what();
    }
    ASSERT_LT(end.elapsed, 10s);
  }
}

TEST(LossesOverProcesses, ALostMessageGivesAnErrorInTimeOrTheSameBits) {
  const auto expected = train({}, 1, 3, 2).state;
  int finished = 0, stalled = 0;
  for (std::uint64_t seed = 1; seed <= cut_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.drop(0.005), seed, 3, 2);
    ASSERT_LT(end.elapsed, 60s);
    if (!end.errors[0] && !end.errors[1]) {
      ++finished;
      ASSERT_EQ(difference(end.state, expected), "");
      continue;
    }
    ++stalled;
    ASSERT_GT(end.fired.drops, 0u);
  }
  EXPECT_GT(finished, int(cut_seeds / 20));
  EXPECT_GT(stalled, int(cut_seeds / 20));
}

} // namespace
} // namespace troupe::simulation
