#include "../support/scratch.hpp"
#include "child.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

// Loops of one's own: their workers are killed, or another process resumes
// them.

namespace {

using namespace troupe;

class LoopProcesses : public worker_test {
protected:
  /// Returns the line that programs/own_loop.cpp prints at the end.
  static std::string result_in(const std::string& output) {
    const auto begin = output.rfind("weights ");
    return begin == output.npos
             ? "no result"
             : output.substr(begin, output.find('\n', begin) - begin);
  }
};

TEST_F(LoopProcesses, GiveTheSameWeightsAndReducedLossesWhenOneIsKilled) {
  for (const int workers : {2, 3}) {
    const auto count = std::to_string(workers);
    const auto expected = result_in(
      run_child({TROUPE_PROGRAMS "/own_loop", "one_device", count}).out);
    ASSERT_NE(expected, "no result");
    for (int killed = 0; killed < workers; killed += workers - 1) {
      const auto done = run_with_signal(killed, SIGKILL,
                                        "launch -n " + count
                                          + " --grace 120 -- " TROUPE_PROGRAMS
                                            "/own_loop workers");
      SCOPED_TRACE("worker " + std::to_string(killed) + " of " + count + '\n'
                   + done.out + done.err);
      EXPECT_EQ(done.code, 128 + SIGKILL);
      EXPECT_NE(done.err.find("; the job goes on with "), done.err.npos);
      EXPECT_EQ(result_in(done.out), expected);
    }
  }
}

TEST_F(LoopProcesses, JoinTheLoopWhenTheyAreStartedAgain) {
  const std::string epochs = "3";
  const auto expected = result_in(
    run_child({TROUPE_PROGRAMS "/own_loop", "one_device", "2", epochs}).out);
  const auto weights = expected.substr(0, expected.find(" losses "));
  for (const int killed : {0, 1}) {
    slow_down(1 - killed);
    const auto done = run_with_signal(
      killed, SIGKILL,
      "launch -n 2 --restarts 1 --faults plan.json -- " TROUPE_PROGRAMS
      "/own_loop workers "
        + epochs);
    SCOPED_TRACE(done.out + done.err);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(
      done.err.find("a process has joined; the job goes on with 2 processes"),
      done.err.npos);
    // The worker that has joined has not seen all losses.
    const auto name = [](int worker) {
      return "[worker " + std::to_string(worker) + "] ";
    };
    EXPECT_NE(done.out.find(name(1 - killed) + expected + '\n'), done.out.npos);
    EXPECT_NE(done.out.find(name(killed) + weights + '\n'), done.out.npos);
  }
}

TEST_F(LoopProcesses, A24AWorkerThatDiesBeforeTheSecondSumIsSurvived) {
  const auto done =
    troupe("launch -n 2 --grace 60 -- " TROUPE_PROGRAMS "/own_loop two_sums");
  SCOPED_TRACE(done.out + done.err);
  EXPECT_EQ(done.code, 128 + SIGKILL);
  // The process that is left has both replicas.
  EXPECT_NE(done.out.find("[worker 0] sum 2 2\n[worker 0] sum 2 2\n"),
            done.out.npos);
}

class LoopResume : public scratch_test {
protected:
  /// Makes the steps [begin, end) in a new process. Returns the hash of the
  /// weights.
  std::string weights_after(const std::string& strategy,
                            const std::string& rule, int begin, int end,
                            const std::string& file,
                            const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command{TROUPE_PROGRAMS "/resumed_loop",
                                     strategy,
                                     rule,
                                     std::to_string(begin),
                                     std::to_string(end),
                                     (folder / file).string()};
    command.insert(command.end(), more.begin(), more.end());
    const auto done = run_child(command);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(done.out.size(), 65u) << done.out;
    return done.out;
  }
};

TEST_F(LoopResume, EndsWithTheWeightsOfAnUndisturbedLoop) {
  for (const std::string rule : {"momentum", "adam"}) {
    const auto expected = weights_after("one_device", rule, 0, 15, "whole");
    for (const std::string strategy : {"one_device", "mirrored"}) {
      SCOPED_TRACE(strategy + ", " + rule);
      EXPECT_EQ(weights_after(strategy, rule, 0, 15, "undisturbed"), expected);
      EXPECT_NE(weights_after(strategy, rule, 0, 7, "half"), expected);
      EXPECT_EQ(weights_after(strategy, rule, 7, 15, "half"), expected);
    }
  }
}

TEST_F(LoopResume, BeginsALoopOfTheStrategyAtAPosition) {
  const auto expected = weights_after("one_device", "adam", 0, 20, "whole");
  for (const std::string strategy : {"one_device", "mirrored"}) {
    SCOPED_TRACE(strategy);
    // The second loop begins in the middle of the first epoch, the third one at
    // the begin of the second epoch.
    EXPECT_NE(weights_after(strategy, "adam", 0, 7, "part", {"loop"}),
              expected);
    EXPECT_NE(weights_after(strategy, "adam", 7, 10, "part", {"loop"}),
              expected);
    EXPECT_EQ(weights_after(strategy, "adam", 10, 20, "part", {"loop"}),
              expected);
  }
}

} // namespace
