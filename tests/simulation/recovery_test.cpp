#include "troupe/actors/core/log.hpp"
#include "troupe/simulation/recovery_check.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

// Simulated jobs that go on when processes are lost, stopped, cut off, leave
// and join. `check_recovery` compares each job with an undisturbed one.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

const auto recovery_seeds = test::seeds_of(300);

class SimulatedRecovery : public ::testing::Test {
protected:
  // The jobs log each loss.
  SimulatedRecovery() { log_from(log_level::off); }
  ~SimulatedRecovery() override { log_from(log_level::warning); }

  /// Runs a plan with one seed, which the test prints if a check fails.
  static recovery_result run_seed(std::uint64_t seed,
                                  const recovery_plan& plan) {
    const auto one = check_recovery(seed, plan);
    EXPECT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
    return one;
  }

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
      sum.survivors_named += one.survivors_named;
    }
    return sum;
  }
};

process_fault fault_of(process_fault::kind type, std::uint32_t task,
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

constexpr std::array all_programs{job_program::fits, job_program::plain_loop,
                                  job_program::joinable_loop};

TEST_F(SimulatedRecovery, RandomFaultsChangeNoBit) {
  recovery_result sum;
  for (std::uint64_t seed = 1; seed <= recovery_seeds; ++seed) {
    const auto one = check_recovery(seed);
    ASSERT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
    sum.fired += one.fired;
    sum.completed += one.completed > 0;
    sum.joined += one.joined;
    sum.left += one.left;
    sum.view_changes += one.view_changes;
    sum.repeated += one.repeated;
    sum.reached.insert(one.reached.begin(), one.reached.end());
  }
  EXPECT_GT(sum.fired, recovery_seeds);
  EXPECT_GT(sum.completed, recovery_seeds / 2);
  EXPECT_GT(sum.view_changes, recovery_seeds / 2);
  EXPECT_GT(sum.joined, recovery_seeds / 100);
  EXPECT_GT(sum.left, recovery_seeds / 20);
  EXPECT_GT(sum.repeated, recovery_seeds / 50);
  EXPECT_GT(sum.reached.size(), recovery_seeds == 300 ? 20u : 8u);
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
  EXPECT_EQ(run({.faults = {fault_of(kill, 0, 7)}}).completed, count);
  EXPECT_EQ(run({.faults = {fault_of(kill, 1, 7)}}).completed, count);
}

TEST_F(SimulatedRecovery, TheChiefAndAnotherProcessMayDieAtOnce) {
  const auto sum =
    run({.processes = 4,
         .faults = {fault_of(kill, 0, 7), at_once(fault_of(kill, 2, 7))}});
  EXPECT_EQ(sum.completed, 2 * test::seeds_of(20));
}

// Those left are fewer than half, so that only the launcher can say that the
// others are dead. They are killed before any of them has agreed on a view with
// those left. One of them may have been started again, and asks to join.
TEST_F(SimulatedRecovery, TheLauncherSaysWhoIsLeftOfTheMajority) {
  for (const auto program : all_programs)
    for (const std::uint32_t processes : {3u, 4u})
      for (std::uint32_t left = 0; left < processes; ++left) {
        std::vector<process_fault> faults;
        for (std::uint32_t task = 0; task < processes; ++task) {
          if (task == left)
            continue;
          faults.push_back(fault_of(kill, task, 7));
          if (faults.size() > 1)
            faults.back() = at_once(faults.back());
          else
            faults.back().until = 1ms;
        }
        const auto count = test::seeds_of(3);
        const auto sum = run({.processes = processes,
                              .program = program,
                              .has_launcher = true,
                              .faults = faults},
                             count);
        SCOPED_TRACE("process " + std::to_string(left) + " of "
                     + std::to_string(processes) + " is left");
        EXPECT_GE(sum.completed, count);
        EXPECT_GE(sum.survivors_named, count);
      }
}

// Process 0 was started again and asks to join. The others are killed when a
// view with it may have been proposed. So the one that is left agrees on a view
// of which it knows that all other members are dead.
TEST_F(SimulatedRecovery, TheLauncherIsAskedAgainInAViewOfDeadProcesses) {
  std::uint64_t most = 0; // answers in one job
  for (std::uint64_t message = 15; message <= 30; ++message) {
    process_fault joins = fault_of(kill, 0, 7);
    joins.until = 5ms;
    std::vector<process_fault> faults{joins};
    for (const std::uint32_t task : {2, 1}) {
      faults.push_back(fault_of(kill, task, 0));
      faults.back().when = process_fault::moment::view_message;
      faults.back().count = message + (task == 1 ? 3 : 0);
      faults.back().messages = 0;
    }
    for (std::uint64_t seed = 1; seed <= test::seeds_of(2); ++seed) {
      const auto one = run_seed(seed, {.processes = 4,
                                       .has_launcher = true,
                                       .reconnects = true,
                                       .faults = faults});
      most = std::max<std::uint64_t>(most, one.survivors_named);
    }
  }
  EXPECT_GE(most, 2u) << "no process was left alone twice";
}

// The third one is dead, so neither has a majority, and each asks the launcher.
TEST_F(SimulatedRecovery,
       OfTwoThatCannotReachEachOtherTheFirstQuestionDecides) {
  for (const auto program : all_programs)
    for (std::uint32_t killed = 0; killed < 3; ++killed)
      for (std::uint64_t seed = 1; seed <= test::seeds_of(3); ++seed) {
        auto cut_off = at_once(fault_of(cut, (killed + 1) % 3, 7));
        cut_off.peer = (killed + 2) % 3;
        const auto one =
          run_seed(seed, {.processes = 3,
                          .program = program,
                          .has_launcher = true,
                          .reconnects = false,
                          .faults = {fault_of(kill, killed, 7), cut_off}});
        EXPECT_EQ(one.fired, 2u) << one.plan;
        EXPECT_EQ(one.completed, 1u) << one.plan;
        EXPECT_EQ(one.launcher_kills, 1u) << one.plan;
      }
}

// Without a launcher they end, because the others may have agreed on a view
// that they do not know.
TEST_F(SimulatedRecovery, OneOfThreeEndsWithoutALauncher) {
  const auto sum =
    run({.processes = 3,
         .faults = {fault_of(kill, 0, 7), at_once(fault_of(kill, 2, 7))}});
  EXPECT_EQ(sum.completed, 0u);
  EXPECT_EQ(sum.survivors_named, 0u);
}

// Process 0 proposes the view without process 3. The next proposer has to
// propose what process 0 may have decided already.
TEST_F(SimulatedRecovery, TheProposerMayDieAtEachMessageOfAViewChange) {
  std::size_t fired = 0;
  for (std::uint64_t message = 1; message <= 20; ++message)
    for (std::uint64_t seed = 1; seed <= test::seeds_of(5); ++seed) {
      auto proposer = fault_of(kill, 0, 0);
      proposer.when = process_fault::moment::view_message;
      proposer.count = message;
      proposer.messages = 0;
      const auto one = check_recovery(
        seed, {.processes = 4, .faults = {fault_of(kill, 3, 7), proposer}});
      ASSERT_EQ(one.failure, "") << "seed " << seed << ": " << one.plan;
      fired += one.fired;
    }
  EXPECT_GT(fired, 20 * test::seeds_of(5) + 5);
}

TEST_F(SimulatedRecovery, AKilledProcessJoinsAgain) {
  auto killed = fault_of(kill, 1, 4);
  killed.until = 20ms;
  // On a slow network, the job is long enough for a process that joins.
  const auto sum = run({.processes = 3, .latency = 1ms, .faults = {killed}});
  EXPECT_GE(sum.joined, test::seeds_of(20) / 2);
}

TEST_F(SimulatedRecovery, AProcessThatIsStoppedForLongIsExcluded) {
  for (std::uint32_t task = 0; task < 3; ++task) {
    auto stopped = fault_of(stop, task, 7);
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
  for (std::uint64_t seed = 1; seed <= test::seeds_of(60); ++seed) {
    auto stopped = fault_of(stop, 1, 6);
    stopped.until = 1000ms + 1ms * (7 * seed % 150);
    const auto one = run_seed(
      seed, {.processes = 4, .on_one_host = false, .faults = {stopped}});
    EXPECT_EQ(one.fired, 1u) << one.plan;
    EXPECT_GE(one.completed, 3u) << one.plan;
  }
}

// No lanes can be opened to process 0, although all are connected. So one of
// the two that remain is excluded, and the other one completes the job.
TEST_F(SimulatedRecovery, AViewWhoseLanesCannotBeOpenedIsNotRenewedForEver) {
  for (const auto program : all_programs)
    for (const bool reconnects : {false, true})
      for (std::uint64_t seed = 1; seed <= test::seeds_of(5); ++seed) {
        const auto one = run_seed(
          seed, {.processes = 3,
                 .program = program,
                 .reconnects = reconnects,
                 .faults = {fault_of(block, 0, 5), fault_of(kill, 2, 7)}});
        EXPECT_EQ(one.fired, 2u) << one.plan;
        EXPECT_EQ(one.completed_tasks, std::set<std::uint32_t>{0}) << one.plan;
        EXPECT_GE(one.seconds, 20) << one.plan;
      }
}

// The members cannot open lanes to the process that was started again, so they
// do not let it join.
TEST_F(SimulatedRecovery, AProcessThatCannotBeReachedDoesNotJoin) {
  for (const auto program : all_programs)
    for (std::uint64_t seed = 1; seed <= test::seeds_of(5); ++seed) {
      auto killed = at_once(fault_of(kill, 0, 5));
      killed.until = 20ms;
      const auto one =
        run_seed(seed, {.processes = 3,
                        .program = program,
                        .reconnects = true,
                        .latency = 1ms,
                        .faults = {fault_of(block, 0, 5), killed}});
      EXPECT_EQ(one.completed_tasks, (std::set<std::uint32_t>{1, 2}))
        << one.plan;
      EXPECT_EQ(one.joined, 0u) << one.plan;
      EXPECT_LT(one.seconds, 15) << one.plan; // its start timeout is 10 s
    }
}

// Process 0 is left alone for a moment, as no other one answers.
TEST_F(SimulatedRecovery, ProcessesThatAnswerAgainAreDialedAgain) {
  for (const bool on_one_host : {false, true})
    for (std::uint64_t seed = 1; seed <= test::seeds_of(10); ++seed) {
      std::vector<process_fault> faults{fault_of(stop, 1, 7),
                                        at_once(fault_of(stop, 2, 7))};
      for (auto& x : faults)
        x.until = 1150ms;
      const auto one = run_seed(seed, {.processes = 3,
                                       .on_one_host = on_one_host,
                                       .reconnects = true,
                                       .faults = faults});
      EXPECT_EQ(one.completed, 3u) << one.plan;
    }
}

TEST_F(SimulatedRecovery, AShortStopChangesNoView) {
  auto stopped = fault_of(stop, 0, 7);
  stopped.until = 500ms;
  const auto sum = run({.processes = 3, .faults = {stopped}});
  EXPECT_EQ(sum.completed, 3 * test::seeds_of(20));
  EXPECT_EQ(sum.view_changes, 0u);
}

TEST_F(SimulatedRecovery, AProcessLeaves) {
  const auto sum = run({.processes = 3, .faults = {fault_of(leave, 0, 7)}});
  EXPECT_EQ(sum.left, test::seeds_of(20));
  EXPECT_EQ(sum.completed, 2 * test::seeds_of(20));
}

TEST_F(SimulatedRecovery, WithoutAMajorityNoSideGoesOn) {
  for (std::uint64_t seed = 1; seed <= test::seeds_of(20); ++seed) {
    const auto one =
      check_recovery(seed, {.processes = 2,
                            .on_one_host = false,
                            .faults = {fault_of(partition, 1, 7)}});
    EXPECT_EQ(one.failure, "") << "seed " << seed;
    EXPECT_EQ(one.completed, 0u) << "seed " << seed;
    EXPECT_EQ(one.fired, 1u) << "seed " << seed;
  }
}

// -- partitions into two groups -----------------------------------------------

/// The numbers of processes of two groups that no longer reach each other, and
/// how many processes go on. All of them are of one group.
struct partition_case {
  std::uint32_t others = 1, first_group = 1;
  bool has_witness = false;
  std::size_t completed = 0;
};

void PrintTo(const partition_case& x, std::ostream* out) {
  *out << x.others << " + " << x.first_group
       << (x.has_witness ? " with a witness" : "");
}

class PartitionOfAJob : public SimulatedRecovery,
                        public ::testing::WithParamInterface<partition_case> {};

// No two views have the same number, and each has one chief
// (recovery_check.hpp). So two groups could commit the same step only if both
// had agreed on a view, and then both would complete the job.
TEST_P(PartitionOfAJob, EndsAsDecided) {
  const auto& of = GetParam();
  const auto processes = of.others + of.first_group;
  for (const auto program : all_programs)
    for (std::uint32_t task = 0; task < processes; ++task)
      for (std::uint64_t seed = 1; seed <= test::seeds_of(5); ++seed) {
        auto partitioned = fault_of(of.first_group == 1 ? partition : split,
                                    task, seed % recovery_steps);
        partitioned.peer = (task + 1) % processes;
        partitioned.messages = 20 * seed;
        const auto one = run_seed(seed, {.processes = processes,
                                         .program = program,
                                         .on_one_host = of.has_witness,
                                         .has_launcher = of.has_witness,
                                         .reconnects = true,
                                         .faults = {partitioned}});
        SCOPED_TRACE(one.plan + ", seed " + std::to_string(seed));
        EXPECT_EQ(one.fired, 1u);
        EXPECT_EQ(one.completed, of.completed);
        // Half of the processes end only by the witness. One of three may
        // see before that it has no majority.
        const auto ended = of.has_witness ? processes - of.completed : 0;
        EXPECT_LE(one.launcher_kills, ended);
        if (2 * of.completed == processes) {
          EXPECT_EQ(one.launcher_kills, ended);
        }
        const auto of_first_group =
          std::ranges::count_if(one.completed_tasks, [&](std::uint32_t x) {
            return x == task || (of.first_group == 2 && x == partitioned.peer);
          });
        EXPECT_TRUE(of_first_group == 0
                    || std::size_t(of_first_group) == one.completed);
      }
}

INSTANTIATE_TEST_SUITE_P(Groups, PartitionOfAJob,
                         ::testing::Values(partition_case{1, 1, false, 0},
                                           partition_case{2, 1, false, 2},
                                           partition_case{1, 2, false, 2},
                                           partition_case{2, 2, false, 0},
                                           partition_case{1, 1, true, 1},
                                           partition_case{2, 1, true, 2},
                                           partition_case{1, 2, true, 2},
                                           partition_case{2, 2, true, 2}));

TEST_F(SimulatedRecovery, ConnectionsThatWereCutAreMadeAgain) {
  auto first = fault_of(cut, 2, 3), second = fault_of(cut, 0, 12);
  first.peer = second.peer = 1;
  const auto sum =
    run({.processes = 3, .reconnects = true, .faults = {first, second}});
  EXPECT_EQ(sum.completed, 3 * test::seeds_of(20));
  EXPECT_GE(sum.view_changes, 2 * test::seeds_of(20));
}

TEST_F(SimulatedRecovery, ALauncherDecidesBetweenTwoProcesses) {
  auto cut_off = fault_of(cut, 0, 7);
  cut_off.peer = 1;
  const auto sum =
    run({.processes = 2, .has_launcher = true, .faults = {cut_off}});
  EXPECT_EQ(sum.completed, test::seeds_of(20));
}

TEST_F(SimulatedRecovery, AMinorityDoesNotEndTheOthersByTheLauncher) {
  // Process 3 detects the loss late, so process 0 is the first to see that it
  // cannot reach the others.
  auto stopped = at_once(fault_of(stop, 3, 7));
  stopped.until = 409ms;
  const auto sum = run({.processes = 4,
                        .has_launcher = true,
                        .faults = {fault_of(partition, 0, 7), stopped}});
  EXPECT_EQ(sum.completed, 3 * test::seeds_of(20));
}

// -- faults in code of the program --------------------------------------------

process_fault in_user_code(process_fault::kind type, std::uint32_t task,
                           std::uint64_t piece) {
  process_fault out;
  out.type = type;
  out.task = task;
  out.when = process_fault::moment::user_code;
  out.count = piece;
  return out;
}

TEST_F(SimulatedRecovery, ProgramsHaveTheirNumberOfPiecesOfUserCode) {
  for (const auto program : all_programs) {
    std::uint64_t pieces = 0;
    program_hooks hooks;
    hooks.in_user_code = [&] { ++pieces; };
    program_result result;
    run_program(program,
                one_device_strategy{"cpu:0", {.replicas = recovery_replicas}},
                hooks, result);
    EXPECT_EQ(pieces, user_code_pieces(program)) << name_of(program);
  }
}

// The other process learns of the loss in its own code, or in its next call.
/// Every how many cases a test checks: all, or fewer with a sanitizer.
std::uint64_t stride() {
  return 100 / test::seeds_of(100);
}

TEST_F(SimulatedRecovery, OfTwoProcessesOneMayDieOutsideOfEachRun) {
  std::size_t jobs = 0, completed = 0;
  for (const auto program : all_programs)
    for (std::uint64_t piece = 1; piece <= user_code_pieces(program);
         piece += stride())
      for (std::uint32_t task = 0; task < 2; ++task) {
        const auto one =
          check_recovery(piece, {.program = program,
                                 .user_code_time = 20ms,
                                 .faults = {in_user_code(kill, task, piece)}});
        ASSERT_EQ(one.failure, "") << "seed " << piece << ": " << one.plan;
        ASSERT_EQ(one.fired, 1u) << one.plan;
        // Before its first call, the job may not have begun.
        jobs += piece > 1;
        completed += one.completed;
      }
  // After the last call, both may have completed the job.
  EXPECT_GE(completed, jobs);
}

TEST_F(SimulatedRecovery, AProcessMayDieAtEachMessageOfTheStart) {
  std::size_t fired = 0, jobs = 0;
  for (std::uint64_t message = 0; message < 200; message += stride()) {
    const auto number = jobs++;
    process_fault killed;
    killed.task = number % 3;
    killed.when = process_fault::moment::delivery;
    killed.count = message;
    if (number % 2 == 0)
      killed.until = 5ms;
    const auto one =
      check_recovery(message, {.processes = 3, .faults = {killed}});
    ASSERT_EQ(one.failure, "") << "seed " << message << ": " << one.plan;
    fired += one.fired;
  }
  EXPECT_EQ(fired, jobs);
}

// All its connections are cut, at different moments of its join.
TEST_F(SimulatedRecovery, AProcessThatIsCutOffWhileItJoinsTriesAgain) {
  std::size_t jobs = 0, joined = 0, cut_joiners = 0;
  for (std::uint64_t messages = 360; messages < 1200;
       messages += 24 * stride()) {
    auto killed = fault_of(kill, 1, 4);
    killed.until = 20ms;
    auto first = at_once(fault_of(cut, 1, 0)),
         second = at_once(fault_of(cut, 1, 0));
    first.peer = 0;
    first.messages = messages;
    second.peer = 2;
    const auto one =
      check_recovery(messages, {.processes = 3,
                                .reconnects = true,
                                .latency = 1ms,
                                .faults = {killed, first, second}});
    ASSERT_EQ(one.failure, "") << "seed " << messages << ": " << one.plan;
    const bool hits_joiner =
      std::ranges::any_of(one.reached, [](const auto& x) {
        return x.find("joiner") != x.npos && x.find("cut") != x.npos;
      });
    ++jobs;
    cut_joiners += hits_joiner;
    joined += hits_joiner && one.joined > 0;
  }
  EXPECT_GT(cut_joiners, jobs / 10);
  EXPECT_EQ(joined, cut_joiners);
}

// A process that joined asked another one for results that had joined itself,
// and did not know them yet.
TEST_F(SimulatedRecovery, OfTwoProcessesThatJoinEachGetsTheResultsOfCalls) {
  auto first = fault_of(kill, 2, 13);
  first.messages = 321;
  first.until = 305ms;
  auto second = fault_of(kill, 0, 9);
  second.when = process_fault::moment::view_message;
  second.messages = 145;
  second.until = 15ms;
  run_seed(4'068'269, {.processes = 3,
                       .program = job_program::joinable_loop,
                       .has_launcher = true,
                       .reconnects = true,
                       .latency = 1ms,
                       .faults = {first, second}});
  auto stopped = fault_of(stop, 0, 13);
  stopped.messages = 399;
  stopped.until = 1662ms;
  auto killed = fault_of(kill, 1, 15);
  killed.messages = 879;
  killed.until = 190ms;
  run_seed(4'004'830, {.processes = 3,
                       .program = job_program::joinable_loop,
                       .user_code_time = 241ms,
                       .reconnects = true,
                       .latency = 1ms,
                       .faults = {stopped, killed}});
}

// The chief is stopped where it has just made a step, or before it saves. When
// it goes on, the others have excluded it and have saved the model.
TEST_F(SimulatedRecovery, AnExcludedProcessReplacesNoFile) {
  for (const auto piece : {12u, 13u, 14u, 20u, 21u}) {
    auto stopped = in_user_code(stop, 0, piece);
    stopped.until = 2500ms;
    const auto sum =
      run({.processes = 3, .faults = {stopped}}, test::seeds_of(5));
    EXPECT_EQ(sum.completed, 2 * test::seeds_of(5)) << piece;
  }
}

// Two processes end, and the others know of one death later than of the other,
// or outside of a run. Meanwhile too few members answer.
TEST_F(SimulatedRecovery, NoProcessGivesUpBeforeItKnowsOfADeath) {
  run_seed(661, {.processes = 4,
                 .user_code_time = 254ms,
                 .latency = 5ms,
                 .faults = {in_user_code(partition, 3, 20),
                            at_once(fault_of(power_off, 3, 0)),
                            at_once(fault_of(kill, 0, 0))}});
  auto killed = fault_of(kill, 0, 15);
  killed.messages = 657;
  killed.until = 29ms;
  run_seed(243, {.processes = 3,
                 .user_code_time = 116ms,
                 .latency = 1ms,
                 .faults = {killed, in_user_code(leave, 0, 13),
                            in_user_code(kill, 1, 26)}});
}

// -- jobs that have failed once -----------------------------------------------

// A process dialed the killed one, and reached the one that was started in its
// place, which then closed their good connection.
TEST_F(SimulatedRecovery, ADialOfAKilledProcessDoesNotDisturbItsSuccessor) {
  auto killed = in_user_code(kill, 2, 1);
  killed.messages = 80;
  killed.until = 9ms;
  const auto one = run_seed(1704, {.processes = 4,
                                   .user_code_time = 15ms,
                                   .reconnects = true,
                                   .faults = {killed}});
  EXPECT_EQ(one.fired, 1u) << one.plan;
  EXPECT_EQ(one.joined, 1u) << one.plan;
  EXPECT_EQ(one.completed, 4u) << one.plan;
}

// The other one had waited for it, had dialed it once more, and had too few
// members to go on. If it dies before that, the other one goes on.
TEST_F(SimulatedRecovery, AStoppedProcessMayDieWhenTheOtherHasGivenUp) {
  std::set<std::size_t> completed;
  for (std::uint64_t messages = 760; messages <= 1000; messages += 20) {
    auto stopped = fault_of(stop, 1, 1);
    stopped.messages = 643;
    stopped.until = 2321ms;
    auto killed = fault_of(kill, 1, 1);
    killed.messages = messages;
    killed.until = 30ms;
    const auto one = run_seed(3'011'535, {.processes = 2,
                                          .program = job_program::joinable_loop,
                                          .on_one_host = true,
                                          .reconnects = true,
                                          .latency = 50us,
                                          .faults = {stopped, killed}});
    completed.insert(one.completed);
  }
  EXPECT_TRUE(completed.contains(0));
  EXPECT_TRUE(completed.contains(1));
}

// Its first call failed, and the next one, `save`, let it join.
TEST_F(SimulatedRecovery, AProcessThatCannotJoinDisturbsNoOther) {
  auto killed = in_user_code(kill, 1, 1);
  killed.messages = 24;
  killed.until = 33ms;
  const auto one = run_seed(1166, {.program = job_program::plain_loop,
                                   .user_code_time = 298ms,
                                   .faults = {killed}});
  EXPECT_EQ(one.fired, 1u) << one.plan;
  EXPECT_EQ(one.completed, 1u) << one.plan;
  EXPECT_EQ(one.joined, 0u) << one.plan;
}

// The process that joins compared its copies before it had received them.
TEST_F(SimulatedRecovery, AProcessMayJoinInASave) {
  std::size_t joined = 0;
  for (std::uint64_t seed = 1; seed <= test::seeds_of(60); ++seed) {
    auto lost = fault_of(power_off, 2, 3);
    lost.messages = 100 + 7 * seed % 60;
    lost.until = 25ms + 1ms * (seed % 20);
    const auto one =
      run_seed(seed, {.processes = 4,
                      .user_code_time = 12ms,
                      .has_launcher = true,
                      .latency = 1ms,
                      .duplicated = 0.02,
                      .faults = {lost, at_once(fault_of(leave, 3, 0))}});
    EXPECT_EQ(one.fired, 2u) << one.plan;
    joined += one.joined;
  }
  EXPECT_GT(joined, 0u);
}

// A process knows that the chief has processed a step, and its successor does
// not.
TEST_F(SimulatedRecovery, NoCallbackIsRepeatedThatAnyProcessKnowsOf) {
  auto cut_off = at_once(fault_of(cut, 0, 0));
  cut_off.peer = 1;
  run_seed(184, {.processes = 3,
                 .on_one_host = false,
                 .faults = {in_user_code(leave, 0, 26), cut_off}});
  auto stopped = in_user_code(stop, 0, 22);
  stopped.messages = 52;
  stopped.until = 436ms;
  cut_off = in_user_code(cut, 0, 24);
  cut_off.messages = 10;
  cut_off.peer = 1;
  run_seed(
    866, {.processes = 3, .has_launcher = true, .faults = {stopped, cut_off}});
}

// Each of the first packets is lost in one job, and each of some later ones is
// corrupt.
TEST_F(SimulatedRecovery, LostAndCorruptPacketsChangeNoBit) {
  std::set<std::string> kinds;
  const auto distance = 60 / test::seeds_of(60);
  for (const auto program : all_programs)
    for (std::uint64_t number = 0; number < 60; number += distance) {
      auto one = run_seed(number, {.processes = 3,
                                   .program = program,
                                   .lost_packets = {number},
                                   .corrupt_packets = {number + 70}});
      EXPECT_EQ(one.faulty_packets, 2u) << one.plan;
      EXPECT_EQ(one.completed, 3u) << one.plan;
      kinds.merge(one.packet_kinds);
    }
  EXPECT_GE(kinds.size(), 4u);
}

// Process 2 is stopped for 590 ms, goes on for 3 ms and is stopped for 419 ms.
// In the 3 ms it sends the heartbeats that are due, so none of the others
// excludes it. The check requires it, because each stop is short.
TEST_F(SimulatedRecovery, TwoStopsInSuccessionExcludeNoProcess) {
  const auto one = check_recovery(9955181);
  EXPECT_EQ(one.failure, "") << one.plan;
}

// The actors of all processes end, also those that wait for a process that was
// silent before it was started again.
TEST_F(SimulatedRecovery, AProcessThatWasSilentIsStartedAgain) {
  auto killed = fault_of(kill, 1, 19);
  killed.messages = 169;
  killed.until = 4ms;
  auto silent = fault_of(power_off, 0, 25);
  silent.when = process_fault::moment::view_message;
  silent.messages = 3;
  silent.until = 14ms;
  auto stopped = in_user_code(stop, 0, 21);
  stopped.until = 2862ms;
  run_seed(1005678, {.processes = 4,
                     .on_one_host = false,
                     .latency = 5ms,
                     .faults = {killed, silent, stopped}});
}

} // namespace
} // namespace troupe::simulation
