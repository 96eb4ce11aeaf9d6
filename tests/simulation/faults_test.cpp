#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <string>

// A fault that ends a run gives an error that names it, in time, and never
// wrong weights.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto seeds = test::seeds_of(300);

/// Result of a run of some steps with faults.
struct ending {
  tensors state; ///< Empty if it failed.
  std::optional<failure> why;
  fault_dice::counts fired;
  caf::timespan took{};
};

ending train(const faults& plan, std::uint64_t seed,
             crew_options::reducers reducing) {
  sim world{seed};
  fault_dice dice{plan, seed};
  ending out;
  {
    const auto on = make_crew(
      world, {.replicas = 3, .patience = 2s, .reducing = reducing}, &dice);
    test::tiny_training training{3};
    const auto step = [&](step_context& at) { training.step(at); };
    try {
      on->run({.steps = 6, .step = step, .on_commit = {}});
      out.state = training.state();
    } catch (const failure& e) {
      out.why = e;
    }
    out.took = world.elapsed();
    if (out.why && out.why->code == ec::peer_lost) { // the replica stays lost
      EXPECT_THROW(
        on->run({.first_step = 6, .steps = 1, .step = step, .on_commit = {}}),
        failure);
    }
  }
  out.fired = dice.fired;
  return out;
}

tensors undisturbed() {
  test::tiny_training training{3};
  const auto step = [&](step_context& at) { training.step(at); };
  make_inline_crew({.replicas = 3})
    ->run({.steps = 6, .step = step, .on_commit = {}});
  return training.state();
}

bool mentions(const ending& x, const std::string& part) {
  return x.why && std::string{x.why->what()}.find(part) != std::string::npos;
}

class Faults : public testing::TestWithParam<crew_options::reducers> {};

INSTANTIATE_TEST_SUITE_P(Sums, Faults,
                         testing::Values(crew_options::reducers::hosted,
                                         crew_options::reducers::own),
                         [](const auto& info) {
                           return info.param == crew_options::reducers::own
                                    ? "by_reducers"
                                    : "by_replicas";
                         });

TEST_P(Faults, AKilledReplicaIsNamedUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end =
      train(faults{}.kill(replica{1}, at_step{3}), seed, GetParam());
    ASSERT_EQ(end.fired.kills, 1u);
    ASSERT_TRUE(end.why);
    ASSERT_EQ(end.why->code, ec::peer_lost) << end.why->what();
    ASSERT_TRUE(mentions(end, "replica 1")) << end.why->what();
    ASSERT_LT(end.took,
              caf::timespan{2s}); // a loss is reported without a timeout
  }
}

TEST_P(Faults, ALostMessageGivesAnErrorInTimeOrTheSameBits) {
  const auto expected = undisturbed();
  int finished = 0, stalled = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto end = train(faults{}.drop(0.005), seed, GetParam());
    ASSERT_LT(end.took, caf::timespan{12s});
    if (!end.why) {
      ++finished;
      ASSERT_EQ(difference(end.state, expected), "");
      continue;
    }
    ++stalled;
    ASSERT_GT(end.fired.drops, 0u);
    ASSERT_EQ(end.why->code, ec::stalled) << end.why->what();
    ASSERT_TRUE(mentions(end, "step ")) << end.why->what();
    ASSERT_TRUE(mentions(end, "replica")) << end.why->what();
  }
  EXPECT_GT(finished, int(seeds / 30));
  EXPECT_GT(stalled, int(seeds / 30));
}

} // namespace
} // namespace troupe::simulation
