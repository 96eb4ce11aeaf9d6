#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <string>

// If a process is cut off, the run of all others is aborted in time. The error
// names the process, the operation and the step.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto seeds = test::seeds_of(100);

constexpr std::uint64_t steps = 8;

/// Errors of all processes in one run, and its result.
struct outcome {
  std::vector<std::optional<failure>> why; ///< By process.
  tensors state;
  fault_dice::counts fired;
  caf::timespan took{};
};

outcome train(const faults& plan, std::uint64_t seed, std::uint32_t replicas,
              std::uint32_t over) {
  sim world{seed};
  fault_dice dice{plan, seed};
  outcome out;
  out.why.resize(over);
  {
    processes all{
      world, {.replicas = replicas, .patience = 10s}, {over, {}}, &dice};
    test::tiny_training training{replicas};
    const auto step = [&](step_context& at) { training.step(at); };
    all.each([&](std::uint32_t p) {
      try {
        all.of(p).run({.steps = steps, .step = step, .on_commit = {}});
      } catch (const failure& e) {
        out.why[p] = e;
      }
    });
    out.took = world.elapsed();
    out.state = training.state();
  }
  out.fired = dice.fired;
  return out;
}

bool mentions(const std::optional<failure>& x, const std::string& part) {
  return x && std::string{x->what()}.find(part) != std::string::npos;
}

struct victim_of {
  std::uint32_t replicas, processes, who;
};

at_step some_step(std::uint64_t seed) {
  return {1 + seed % (steps - 3)};
}

class Cuts : public testing::TestWithParam<victim_of> {
protected:
  /// Expects that the errors of all other processes name the process that was
  /// cut off, the operation and the step.
  static void expect_blame(const outcome& end, ec code) {
    const auto [replicas, all, who] = GetParam();
    ASSERT_EQ(end.fired.cuts, 1u);
    for (std::uint32_t p = 0; p < all; ++p) {
      SCOPED_TRACE("process " + std::to_string(p));
      ASSERT_TRUE(end.why[p]);
      const std::string text = end.why[p]->what();
      ASSERT_EQ(end.why[p]->code, code) << text;
      if (p == who)
        continue;
      ASSERT_TRUE(mentions(end.why[p], "process " + std::to_string(who)))
        << text;
      ASSERT_TRUE(mentions(end.why[p], "step ")) << text;
      ASSERT_TRUE(mentions(end.why[p], "the sum of bucket")) << text;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Victims, Cuts,
                         testing::Values(victim_of{2, 2, 1}, victim_of{2, 2, 0},
                                         victim_of{3, 3, 1}, victim_of{4, 3, 2},
                                         victim_of{5, 4, 0}),
                         [](const auto& info) {
                           return std::to_string(info.param.who) + "of"
                                  + std::to_string(info.param.processes);
                         });

TEST_P(Cuts, ADisconnectedProcessIsNamedByAllOthersAtOnce) {
  const auto [replicas, all, who] = GetParam();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end =
      train(faults{}.cut(process{who}, some_step(seed)), seed, replicas, all);
    expect_blame(end, ec::peer_lost);
    if (HasFatalFailure())
      return;
    ASSERT_LT(end.took, 1s); // a loss is reported without a timeout
  }
}

TEST_P(Cuts, APartitionedProcessIsNamedAfterTheHeartbeatTimeout) {
  const auto [replicas, all, who] = GetParam();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.isolate(process{who}, some_step(seed)),
                           seed, replicas, all);
    expect_blame(end, ec::unreachable);
    if (HasFatalFailure())
      return;
    ASSERT_GE(end.took, 1s); // network_options::heartbeat_timeout
    ASSERT_LT(end.took, 3s);
  }
}

TEST_P(Cuts, EveryProcessEndsInTimeIfOneIsCutOffAtTheStart) {
  const auto [replicas, all, who] = GetParam();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto plan = seed % 2 ? faults{}.cut(process{who}, at_step{0})
                               : faults{}.isolate(process{who}, at_step{0});
    const auto end = train(plan, seed, replicas, all);
    ASSERT_EQ(end.fired.cuts, 1u);
    for (std::uint32_t p = 0; p < all; ++p) {
      ASSERT_TRUE(end.why[p]) << p;
      if (p != who) {
        ASSERT_TRUE(mentions(end.why[p], "process " + std::to_string(who)))
          << end.why[p]->what();
      }
    }
    ASSERT_LT(end.took, 3s);
  }
}

TEST(CutsOfOneGroup, ThrowTheErrorOfASurvivor) {
  for (const std::uint32_t who : {0u, 1u}) {
    sim world{1};
    fault_dice dice{faults{}.cut(process{who}, at_step{2}), 1};
    const auto on = make_crew(world, {.replicas = 2}, {2, {}}, &dice);
    test::tiny_training training{2};
    const auto step = [&](step_context& at) { training.step(at); };
    try {
      on->run({.steps = steps, .step = step, .on_commit = {}});
      ADD_FAILURE() << "the run did not fail";
    } catch (const failure& e) {
      EXPECT_TRUE(mentions(e, "process " + std::to_string(who))) << e.what();
    }
    EXPECT_EQ(dice.fired.cuts, 1u);
  }
}

TEST(LossesOverProcesses, AKilledReplicaIsNamedUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.kill(replica{2}, at_step{3}), seed, 3, 2);
    ASSERT_EQ(end.fired.kills, 1u);
    for (const auto& why : end.why) {
      ASSERT_TRUE(why);
      ASSERT_EQ(why->code, ec::peer_lost) << why->what();
      ASSERT_TRUE(mentions(why, "process 1")) << why->what();
    }
    ASSERT_LT(end.took, 10s);
  }
}

TEST(LossesOverProcesses, ALostMessageGivesAnErrorInTimeOrTheSameBits) {
  const auto expected = train({}, 1, 3, 2).state;
  int finished = 0, stalled = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.drop(0.005), seed, 3, 2);
    ASSERT_LT(end.took, 60s);
    if (!end.why[0] && !end.why[1]) {
      ++finished;
      ASSERT_EQ(difference(end.state, expected), "");
      continue;
    }
    ++stalled;
    ASSERT_GT(end.fired.drops, 0u);
  }
  EXPECT_GT(finished, int(seeds / 20));
  EXPECT_GT(stalled, int(seeds / 20));
}

} // namespace
} // namespace troupe::simulation
