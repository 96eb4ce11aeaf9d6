#include "launches.hpp"

#include <algorithm>

// Tests of how `troupe launch` ends: its exit code, its last line, and the end
// of its processes.

namespace {

using namespace troupe;

TEST_F(Launch, NamesTheFirstFailureAndEndsTheOthers) {
  script("is 1 && exit 3; stay");
  const auto done = launch("-n 3 --grace 0");
  EXPECT_EQ(done.code, 3);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1 failed first: exit code 3")
    << done.err;
}

/// Without the verdict of worker 0, worker 1 would try to connect for the start
/// timeout of 60 s. Then it would say that it could not reach worker 0.
TEST_F(Launch, EndsAtOnceIfAProcessHasAnotherSecret) {
  put("other", "open barley\n");
  std::filesystem::permissions(folder / "other",
                               std::filesystem::perms::owner_read);
  script("is 1 && export TROUPE_SECRET_FILE=other\n"
         "exec " TROUPE_TOOL " train --data digits:200 --epochs 1 --quiet "
         "--strategy multi_worker_mirrored");
  const auto done = launch("-n 2");
  EXPECT_EQ(done.code, 1);
  for (const std::string said :
       {"worker 0 rejected worker 1: ",
        "its secret is another than that of this process: give both processes "
        "the same secret, by TROUPE_SECRET_FILE",
        "[worker 0] ", "it does not know the secret: give both"})
    EXPECT_NE(done.err.find(said), done.err.npos) << done.err;
}

TEST_F(Launch, NamesTheSignalOfTheFirstFailure) {
  script("is 0 && kill -9 $$; stay");
  const auto done = launch("-n 2 --grace 0");
  EXPECT_EQ(done.code, 137);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 0 failed first: signal 9 (Killed)")
    << done.err;
}

TEST_F(Launch, KillsAStoppedProcessWhenAnotherFails) {
  script(
    "if is 1; then echo $$ >id.new; mv id.new id; kill -STOP $$; stay; fi\n"
    "until [ -e id ] && grep -q 'State:.T' /proc/$(cat id)/status\n"
    "do :; done; exit 3");
  const auto done = launch("-n 2 --grace 1000");
  EXPECT_EQ(done.code, 3);
  EXPECT_EQ(
    last_line_of(done.err),
    "troupe: worker 0 failed first: exit code 3; worker 1 was stopped at "
    "that time and was killed")
    << done.err;
}

TEST_F(Launch, KnowsTheFirstOfTwoEndsThatItReadsTogether) {
  for (const auto* name : {"go0", "go1"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  const auto go0 = ::open((folder / "go0").c_str(), O_RDWR);
  const auto go1 = ::open((folder / "go1").c_str(), O_RDWR);
  script("if is 0; then echo $$ >id0; echo ready >&2; read x <go0; exit 4; fi\n"
         "echo $$ >id1; echo ready >&2; read x <go1; exit 3");
  const auto both_end_while_it_is_stopped = [=, this](pid_t tool) {
    ::kill(tool, SIGSTOP);
    EXPECT_EQ(::write(go1, "on\n", 3), 3);
    wait_for_end(std::stoi(text_of("id1")));
    EXPECT_EQ(::write(go0, "on\n", 3), 3);
    wait_for_end(std::stoi(text_of("id0")));
    ::kill(tool, SIGCONT);
  };
  const auto done =
    launch("-n 2 --grace 100", when_ready(2, both_end_while_it_is_stopped));
  ::close(go0);
  ::close(go1);
  EXPECT_EQ(last_line_of(done.err),
            "troupe: worker 1 failed first: exit code 3")
    << done.err;
}

TEST_F(Launch, PassesOnOutputWithinTheGracePeriod) {
  script("is 1 && exit 3; echo lost worker 1 >&2; exit 4");
  const auto done = launch("-n 2 --grace 100");
  EXPECT_NE(done.err.find("[worker 0] lost worker 1\n"), done.err.npos)
    << done.err;
}

TEST_F(Launch, KillsAProcessThatIgnoresSigterm) {
  script("is 1 && exit 3; trap '' TERM; stay");
  const auto done = launch("-n 2 --grace 0");
  EXPECT_EQ(done.code, 3) << done.err;
}

/// Worker 1 stops itself during the grace period after the failure of worker 0.
/// At the end of this period, the tool kills worker 1 and sends SIGTERM to
/// worker 2, which waits for the end of worker 1.
TEST_F(Launch, KillsAStoppedProcessAfterOneGracePeriod) {
  for (const auto* name : {"here", "there"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  script("if is 0; then echo $$ >id0; read x <here; read x <there; exit 3; fi\n"
         "if is 1; then echo $$ >id; echo on >here\n"
         "tail --pid=$(cat id0) -f /dev/null; kill -STOP $$; fi\n"
         "trap 'tail --pid=$(cat id) -f /dev/null; echo it has ended; exit 0' "
         "TERM\n"
         "echo on >there; stay");
  const auto done = launch("-n 3 --grace 4");
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_EQ(output_by_name(done.out)["worker 2"], "it has ended\n");
}

TEST_F(Launch, ForwardsSignals) {
  for (const auto& [number, name, code] : {std::tuple{SIGINT, "INT", 5},
                                           {SIGTERM, "TERM", 6},
                                           {SIGHUP, "HUP", 7}}) {
    SCOPED_TRACE(name);
    script("trap 'echo trapped; exit " + std::to_string(code) + "' "
           + std::string{name} + "; echo ready >&2; stay");
    const auto done = launch(
      "-n 2 --grace 100",
      when_ready(2, [number = number](pid_t tool) { ::kill(tool, number); }));
    EXPECT_EQ(done.code, code) << done.err;
    for (const auto* one : {"worker 0", "worker 1"})
      EXPECT_EQ(output_by_name(done.out)[one], "trapped\n");
    EXPECT_NE(last_line_of(done.err).find("was passed on; worker "),
              done.err.npos)
      << done.err;
  }
}

TEST_F(Launch, SucceedsIfAllProcessesSucceedAfterASignal) {
  script("trap 'exit 0' TERM; echo ready >&2; stay");
  const auto done =
    launch("-n 2", when_ready(2, [](pid_t tool) { ::kill(tool, SIGTERM); }));
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(Launch, EndsItsProcessesIfItIsKilled) {
  // The killed tool leaves its secret file in TMPDIR.
  ::setenv("TMPDIR", folder.c_str(), 1);
  script("is 1 && echo $$ > id; echo ready >&2; exec cat fifo");
  const auto done =
    launch("-n 2", when_ready(2, [](pid_t tool) { ::kill(tool, SIGKILL); }));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(done.code, 137) << done.err;
  wait_for_end(std::stoi(text_of("id")));
}

/// A wrapper script that does not use exec.
TEST_F(Launch, EndsTheDescendantsOfItsProcessesIfItIsKilled) {
  ::setenv("TMPDIR", folder.c_str(), 1);
  script("cat fifo & echo $! >id$$; is 1 && mv id$$ id; echo ready >&2; wait");
  const auto done =
    launch("-n 2", when_ready(2, [](pid_t tool) { ::kill(tool, SIGKILL); }));
  ::unsetenv("TMPDIR");
  EXPECT_EQ(done.code, 137) << done.err;
  wait_for_end(std::stoi(text_of("id")));
}

TEST_F(Launch, KillsTheDescendantsOfItsProcesses) {
  script("cat fifo & echo $! > id");
  EXPECT_EQ(launch("-n 1").code, 0);
  wait_for_end(std::stoi(text_of("id")));
}

TEST_F(Launch, EndsItsProcessesIfTheirOutputCannotBeWritten) {
  script("echo word; stay");
  child_options options;
  options.out_file = "/dev/full";
  expect_rejected("launch -n 2 --grace 0 -- sh job.sh", 1,
                  {"cannot write output of worker", "No space left"}, options);
}

} // namespace
