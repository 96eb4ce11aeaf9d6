#include "launches.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

// `troupe launch --restarts`.

namespace {

using namespace troupe;

class LaunchRestarts : public worker_test {};

TEST_F(LaunchRestarts, KilledWorkersJoinAndGiveTheSameWeights) {
  const std::string training = "train --data digits:280 --batch 20 "
                               "--epochs 12 --replicas 2 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (const int killed : {0, 1}) {
    slow_down(1 - killed);
    const auto done = run_with_signal(
      killed, SIGKILL,
      "launch -n 2 --restarts 1 --faults plan.json -- " TROUPE_TOOL " "
        + training + "--strategy multi_worker_mirrored");
    const auto name = "worker " + std::to_string(killed);
    SCOPED_TRACE(name + '\n' + done.err);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(done.err.find("warning: " + name
                            + " was killed; it is started again and asks to "
                              "join the job"),
              done.err.npos);
    EXPECT_NE(
      done.err.find("a process has joined; the job goes on with 2 processes"),
      done.err.npos);
    EXPECT_NE(done.out.find("] weights_sha256 " + expected), done.out.npos)
      << done.out;
  }
}

/// It exits with code 1, and has told the launcher that the job goes on.
TEST_F(LaunchRestarts, AWorkerThatHasLeftByAnErrorDoesNotEndTheJob) {
  const std::string job =
    "launch -n 3 --restarts 1 -- " TROUPE_PROGRAMS "/replica_ends";
  const auto weights_from = [](const outcome& x, int worker) {
    const auto begin = "[worker " + std::to_string(worker) + "] weights ";
    const auto at = x.out.find(begin);
    return at == x.out.npos ? "" : x.out.substr(at + begin.size(), 64);
  };
  const auto undisturbed = weights_from(troupe(job), 0);
  ASSERT_EQ(undisturbed.size(), 64u);
  for (const int leaver : {0, 1}) {
    const auto done = troupe(job + ' ' + std::to_string(leaver));
    SCOPED_TRACE(done.out + done.err);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(done.err.find("; so this process has left its job"),
              done.err.npos);
    EXPECT_NE(done.err.find("the job goes on with 2 processes"), done.err.npos);
    for (const int worker : {0, 1, 2})
      EXPECT_EQ(weights_from(done, worker),
                worker == leaver ? "" : undisturbed);
  }
}

TEST_F(LaunchRestarts, AWorkerWhoseDeviceHasFailedIsStartedAgain) {
  const auto run = [&](const std::string& restarts, const std::string& worker) {
    return troupe("launch -n 2 " + restarts
                  + " -- " TROUPE_PROGRAMS "/lost_device" + worker);
  };
  const auto weights_from = [](const outcome& x, int worker) {
    const auto begin = "[worker " + std::to_string(worker) + "] weights ";
    const auto at = x.out.find(begin);
    return at == x.out.npos ? "" : x.out.substr(at + begin.size(), 64);
  };
  const auto expected = weights_from(run("", ""), 0);
  ASSERT_EQ(expected.size(), 64u);
  for (const int lost : {0, 1})
    for (const bool restarts : {false, true}) {
      const auto name = "worker " + std::to_string(lost);
      slow_down(1 - lost);
      const auto done = run(restarts ? "--restarts 1 --faults plan.json" : "",
                            ' ' + std::to_string(lost));
      SCOPED_TRACE(name + '\n' + done.out + done.err);
      EXPECT_EQ(done.code, 0);
      EXPECT_NE(done.err.find("cuda:0 has failed: an illegal memory access was "
                              "encountered (cudaErrorIllegalAddress); so this "
                              "process has left its job, and the others go on"),
                done.err.npos);
      EXPECT_EQ(done.err.find("warning: " + name
                              + " has ended, because its device failed; it is "
                                "started again and asks to join the job")
                  != done.err.npos,
                restarts);
      EXPECT_EQ(
        done.err.find("a process has joined; the job goes on with 2 processes")
          != done.err.npos,
        restarts);
      EXPECT_EQ(weights_from(done, 1 - lost), expected);
      EXPECT_EQ(weights_from(done, lost), restarts ? expected : "");
    }
}

class LaunchRestartsOfScripts : public Launch {};

/// Worker 0 ends when the tool has given up.
TEST_F(LaunchRestartsOfScripts, SaysAllThatHasHappenedWhenItGivesUp) {
  ASSERT_EQ(::mkfifo((folder / "go").c_str(), 0600), 0);
  const auto go = ::open((folder / "go").c_str(), O_RDWR);
  // It says that the job has begun, so that the next one joins it.
  script("if is 1; then echo \"joins $TROUPE_JOIN\"\n"
         "bash -c 'echo begun >&$TROUPE_LAUNCHER'; kill -9 $$; fi\n"
         "read x <go; exit 0");
  child_options options;
  options.on_error_output = [go, done = false](pid_t,
                                               const std::string& err) mutable {
    if (!done && err.find("all restarts are used up") != err.npos)
      done = ::write(go, "on\n", 3) == 3;
  };
  const auto done = launch("-n 2 --restarts 2", options);
  ::close(go);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(output_by_name(done.out)["worker 1"], "joins \njoins 1\njoins 1\n");
  const auto last = last_line_of(done.err);
  std::size_t from = 0;
  for (const auto* event :
       {"warning: worker 1 was killed and is not started again, because all "
        "restarts are used up; since the start: ",
        " s: worker 1: signal 9 (Killed); ", " s: worker 1 was started again; ",
        "worker 1: signal 9 (Killed); ", "worker 1 was started again; ",
        "worker 1: signal 9 (Killed)"}) {
    from = last.find(event, from);
    ASSERT_NE(from, last.npos) << event << " in: " << last;
    ++from;
  }
}

TEST_F(LaunchRestartsOfScripts, GivesUpIfProcessesAreKilledTooOften) {
  ASSERT_EQ(::mkfifo((folder / "go").c_str(), 0600), 0);
  const auto go = ::open((folder / "go").c_str(), O_RDWR);
  // Eleven processes that are killed at once; one that waits. The job has
  // begun, so that it can go on without them.
  script("if ! is 0; then bash -c 'echo begun >&$TROUPE_LAUNCHER'; kill -9 $$; "
         "fi\nbash -c 'echo begun >&$TROUPE_LAUNCHER'; read x <go; exit 0");
  child_options options;
  options.on_error_output = [go, done = false](pid_t,
                                               const std::string& err) mutable {
    if (!done && err.find("processes are killed too often") != err.npos)
      done = ::write(go, "on\n", 3) == 3;
  };
  const auto done = launch("-n 12 --restarts 1000", options);
  ::close(go);
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(LaunchRestartsOfScripts, FailsIfNoProcessIsLeftToJoin) {
  script("bash -c 'echo begun >&$TROUPE_LAUNCHER'; kill -9 $$");
  const auto done = launch("-n 1 --restarts 5");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0: signal 9 (Killed); it was the last process with "
            "the state of the job");
  EXPECT_EQ(done.err.find("started again"), done.err.npos) << done.err;
}

/// Worker 0 waits for worker 1, which is not started again.
TEST_F(LaunchRestartsOfScripts, EndsAJobThatCannotBeginAnyMore) {
  script("if is 1; then kill -9 $$; fi\nstay");
  const auto done = launch("-n 2 --restarts 2");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1: signal 9 (Killed); it was lost before the job "
            "had begun, and is not started again");
  EXPECT_NE(done.err.find("all restarts are used up"), done.err.npos);
}

/// Worker 0 fails because worker 1 is killed during the start: all are started
/// again, which counts as one restart. No process joins.
TEST_F(LaunchRestartsOfScripts, StartsAllAgainIfTheStartFailsAfterAKill) {
  ASSERT_EQ(::mkfifo((folder / "id").c_str(), 0600), 0);
  script("echo \"joins $TROUPE_JOIN\"\n"
         "if is 1 && [ -e killed ]; then stay; fi\n"
         "if is 1; then touch killed; echo $$ >id; kill -9 $$; fi\n"
         "if [ -e failed ]; then exit 0; fi\n"
         "read x <id; tail -s 0.01 --pid=$x -f /dev/null\n"
         "touch failed; exit 1");
  const auto done = launch("-n 2 --restarts 1 --grace 0");
  SCOPED_TRACE(done.err);
  EXPECT_EQ(done.code, 0);
  auto outputs = output_by_name(done.out);
  EXPECT_EQ(outputs["worker 0"], "joins \njoins \n");
  EXPECT_EQ(outputs["worker 1"].find("joins 1"), std::string::npos);
  EXPECT_NE(done.err.find("all are started again"), done.err.npos);
}

/// The connections of a killed process can end before the system reports its
/// end. Another one may fail because of that, and be reported first.
TEST_F(LaunchRestartsOfScripts, StartsAllAgainIfTheKilledOneIsReportedLast) {
  for (const auto* name : {"id", "dying"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  script("if is 1 && [ -e killed ]; then stay; fi\n"
         "if is 1; then touch killed; exec " TROUPE_PROGRAMS
         "/slow_death id dying; fi\n"
         "if [ -e failed ]; then exit 0; fi\n"
         "echo $$ >id; read x <dying; touch failed; exit 1");
  const auto done = launch("-n 2 --restarts 1 --grace 0");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("all are started again"), done.err.npos) << done.err;
}

/// The first failure is an error of the program.
TEST_F(LaunchRestartsOfScripts, StartsNoneAgainIfNoneWasKilled) {
  script("is 0 && exit 1; stay");
  const auto done = launch("-n 2 --restarts 5 --grace 0");
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_EQ(done.err.find("started again"), done.err.npos) << done.err;
}

/// Worker 1 joins when worker 0, which has the state, is killed.
TEST_F(LaunchRestartsOfScripts, EndsAJobWithoutAProcessThatHasItsState) {
  script("if [ \"$TROUPE_JOIN\" = 1 ]; then echo $$ >joiner; kill -9 $(cat "
         "first); stay; fi\n"
         "if is 0; then echo $$ >first; echo on >fifo\n"
         "bash -c 'echo begun >&$TROUPE_LAUNCHER'; stay; fi\n"
         "read x <fifo; bash -c 'echo begun >&$TROUPE_LAUNCHER'; kill -9 $$");
  const auto done = launch("-n 2 --restarts 20");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0: signal 9 (Killed); it was the last process with "
            "the state of the job, which worker 1 had not copied yet");
  wait_for_end(std::stoi(text_of("joiner")));
}

TEST_F(LaunchRestartsOfScripts, AFailureOfAProgramEndsTheJob) {
  script("is 1 && exit 3; stay");
  const auto done = launch("-n 2 --restarts 5 --grace 0");
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1 failed first: exit code 3");
  EXPECT_EQ(done.err.find("started again"), done.err.npos) << done.err;
}

TEST_F(LaunchRestartsOfScripts, RejectsAnInvalidNumber) {
  expect_rejected("launch -n 2 --restarts many -- true", 2,
                  {"--restarts", "many"});
}

} // namespace
