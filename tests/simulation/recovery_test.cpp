#include "troupe/actors/core/log.hpp"
#include "troupe/simulation/recovery_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

// Simulated jobs that go on when processes are lost, stopped, cut off, leave
// and join. `check_recovery` compares each job with an undisturbed one.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto seeds = test::seeds_of(300);

class SimulatedRecovery : public testing::Test {
protected:
  // The jobs log each loss.
  SimulatedRecovery() { log_from(log_level::off); }
  ~SimulatedRecovery() override { log_from(log_level::warning); }

  /// Runs a plan with several seeds.
  /// @returns sums over the jobs.
  static recovery_result run(const recovery_plan& plan,
                             std::uint64_t count = test::seeds_of(20)) {
    recovery_result sum;
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
      const auto one = check_recovery(seed, plan);
      EXPECT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
      EXPECT_EQ(one.fired, plan.faults.size()) << "seed " << seed;
      sum.completed += one.completed;
      sum.joined += one.joined;
      sum.left += one.left;
      sum.view_changes += one.view_changes;
    }
    return sum;
  }
};

process_fault fault(process_fault::kind type, std::uint32_t task,
                    std::uint64_t step) {
  process_fault out;
  out.type = type;
  out.task = task;
  out.count = step;
  out.messages = 50;
  return out;
}

process_fault at_once(process_fault x) {
  x.when = process_fault::moment::with_last;
  x.messages = 0;
  return x;
}

using enum process_fault::kind;

TEST_F(SimulatedRecovery, RandomFaultsChangeNoBit) {
  recovery_result sum;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto one = check_recovery(seed);
    ASSERT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
    sum.fired += one.fired;
    sum.completed += one.completed > 0;
    sum.joined += one.joined;
    sum.left += one.left;
    sum.view_changes += one.view_changes;
    sum.reached.insert(one.reached.begin(), one.reached.end());
  }
  EXPECT_GT(sum.fired, seeds);
  EXPECT_GT(sum.completed, seeds / 2);
  EXPECT_GT(sum.view_changes, seeds / 2);
  EXPECT_GT(sum.joined, seeds / 100);
  EXPECT_GT(sum.left, seeds / 20);
  EXPECT_GT(sum.reached.size(), test::slowness == 1 ? 20u : 8u);
}

TEST_F(SimulatedRecovery, TheSameSeedGivesTheSameJob) {
  for (std::uint64_t seed = 1; seed <= test::seeds_of(10); ++seed) {
    const auto a = check_recovery(seed), b = check_recovery(seed);
    EXPECT_EQ(a.delivered, b.delivered) << "seed " << seed;
    EXPECT_EQ(a.seconds, b.seconds) << "seed " << seed;
    EXPECT_EQ(a.reached, b.reached) << "seed " << seed;
  }
}

TEST_F(SimulatedRecovery, WithoutFaultsAllProcessesComplete) {
  const auto sum = run({.processes = 4, .faults = {}}, 5);
  EXPECT_EQ(sum.completed, 20u);
  EXPECT_EQ(sum.view_changes, 0u);
}

TEST_F(SimulatedRecovery, OfTwoProcessesOfOneHostOneSurvivesTheOther) {
  const auto count = test::seeds_of(20);
  EXPECT_EQ(run({.faults = {fault(kill, 0, 7)}}).completed, count);
  EXPECT_EQ(run({.faults = {fault(kill, 1, 7)}}).completed, count);
}

TEST_F(SimulatedRecovery, TheChiefAndAnotherProcessMayDieAtOnce) {
  const auto sum =
    run({.processes = 4,
         .faults = {fault(kill, 0, 7), at_once(fault(kill, 2, 7))}});
  EXPECT_EQ(sum.completed, 2 * test::seeds_of(20));
}

// Process 0 proposes the view without process 3. The next proposer has to
// propose what process 0 may have decided already.
TEST_F(SimulatedRecovery, TheProposerMayDieAtEachMessageOfAViewChange) {
  std::size_t fired = 0;
  for (std::uint64_t message = 1; message <= 20; ++message)
    for (std::uint64_t seed = 1; seed <= test::seeds_of(5); ++seed) {
      auto proposer = fault(kill, 0, 0);
      proposer.when = process_fault::moment::view_message;
      proposer.count = message;
      proposer.messages = 0;
      const auto one = check_recovery(
        seed, {.processes = 4, .faults = {fault(kill, 3, 7), proposer}});
      ASSERT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
      fired += one.fired;
    }
  EXPECT_GT(fired, 20 * test::seeds_of(5) + 5);
}

TEST_F(SimulatedRecovery, AKilledProcessJoinsAgain) {
  auto killed = fault(kill, 1, 4);
  killed.until = 20ms;
  // On a slow network, the job is long enough for a process that joins.
  const auto sum = run({.processes = 3, .latency = 1ms, .faults = {killed}});
  EXPECT_GE(sum.joined, test::seeds_of(20) / 2);
}

TEST_F(SimulatedRecovery, AProcessThatIsStoppedForLongIsExcluded) {
  for (std::uint32_t task = 0; task < 3; ++task) {
    auto stopped = fault(stop, task, 7);
    stopped.until = 2500ms;
    const auto sum =
      run({.processes = 3, .faults = {stopped}}, test::seeds_of(10));
    EXPECT_EQ(sum.completed, 2 * test::seeds_of(10));
  }
}

// Some processes have lost the connection to the stopped one when it goes on,
// and others have not. It then ends its run while the others are still in
// theirs.
TEST_F(SimulatedRecovery, AProcessThatEndsItsRunEarlyDoesNotEndTheJob) {
  for (const auto until : {1050ms, 1070ms, 1090ms}) {
    auto stopped = fault(stop, 1, 6);
    stopped.until = until;
    const auto sum =
      run({.processes = 4, .on_one_host = false, .faults = {stopped}},
          test::seeds_of(15));
    EXPECT_GE(sum.completed, 3 * test::seeds_of(15));
  }
}

TEST_F(SimulatedRecovery, AShortStopChangesNoView) {
  auto stopped = fault(stop, 0, 7);
  stopped.until = 500ms;
  const auto sum = run({.processes = 3, .faults = {stopped}});
  EXPECT_EQ(sum.completed, 3 * test::seeds_of(20));
  EXPECT_EQ(sum.view_changes, 0u);
}

TEST_F(SimulatedRecovery, AProcessLeaves) {
  const auto sum = run({.processes = 3, .faults = {fault(leave, 0, 7)}});
  EXPECT_EQ(sum.left, test::seeds_of(20));
  EXPECT_EQ(sum.completed, 2 * test::seeds_of(20));
}

TEST_F(SimulatedRecovery, WithoutAMajorityNoSideGoesOn) {
  for (std::uint64_t seed = 1; seed <= test::seeds_of(20); ++seed) {
    const auto one = check_recovery(seed, {.processes = 2,
                                           .on_one_host = false,
                                           .faults = {fault(partition, 1, 7)}});
    EXPECT_EQ(one.failure, "") << "seed " << seed;
    EXPECT_EQ(one.completed, 0u) << "seed " << seed;
    EXPECT_EQ(one.fired, 1u) << "seed " << seed;
  }
}

TEST_F(SimulatedRecovery, ALauncherDecidesBetweenTwoProcesses) {
  auto cut_off = fault(cut, 0, 7);
  cut_off.peer = 1;
  const auto sum =
    run({.processes = 2, .has_launcher = true, .faults = {cut_off}});
  EXPECT_EQ(sum.completed, test::seeds_of(20));
}

TEST_F(SimulatedRecovery, AMinorityDoesNotEndTheOthersByTheLauncher) {
  // Process 3 detects the loss late, so process 0 is the first to see that it
  // cannot reach the others.
  auto stopped = at_once(fault(stop, 3, 7));
  stopped.until = 409ms;
  const auto sum = run({.processes = 4,
                        .has_launcher = true,
                        .faults = {fault(partition, 0, 7), stopped}});
  EXPECT_EQ(sum.completed, 3 * test::seeds_of(20));
}

} // namespace
} // namespace troupe::simulation
