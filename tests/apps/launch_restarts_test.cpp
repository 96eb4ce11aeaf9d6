#include "launches.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

// `troupe launch --restarts`.

namespace {

using namespace troupe;

class LaunchRestarts : public worker_test {};

TEST_F(LaunchRestarts, KilledWorkersJoinAndGiveTheSameWeights) {
  const std::string training = "train --data digits:1400 --batch 24 "
                               "--epochs 40 --replicas 2 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (const int killed : {0, 1}) {
    const auto done =
      run_with_signal(killed, SIGKILL,
                      "launch -n 2 --restarts 1 -- " TROUPE_TOOL " " + training
                        + "--strategy multi_worker_mirrored");
    const auto name = "worker " + std::to_string(killed);
    SCOPED_TRACE(name + '\n' + done.err);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(done.err.find("warning: " + name
                            + " was killed; it is started again and joins"),
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
  // Eleven processes that are killed at once; one that waits.
  script("if ! is 0; then kill -9 $$; fi\nread x <go; exit 0");
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
  script("kill -9 $$");
  const auto done = launch("-n 1 --restarts 5");
  EXPECT_EQ(done.code, 137) << done.err;
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0 failed first: signal 9 (Killed)");
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
