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
