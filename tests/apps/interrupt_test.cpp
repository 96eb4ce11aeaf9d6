#include "background.hpp"
#include "signal_sets.hpp"
#include "tool.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

// Tests of what SIGINT does to `troupe train` in each phase of a run.

namespace {

using namespace troupe;
using troupe::test::becomes_true;

class Interrupt : public tool_test {
protected:
  /// Starts the tool with standard error redirected to standard output.
  /// @param before commands of the shell that starts the tool.
  background_process start(const std::string& words,
                           const std::string& before = {}) const {
    return background_process{{"/bin/sh", "-c",
                               "cd " + folder.string() + " && " + before
                                 + "exec " TROUPE_TOOL " " + words + " 2>&1"}};
  }

  /// Sends SIGINT after the tool has installed its handlers, and waits until
  /// the signal is no longer pending. At first the process is a shell, which
  /// may have a handler of SIGINT, but has none of SIGTERM. The tool installs
  /// its handler of SIGTERM last, so the handler of SIGTERM shows that both
  /// handlers are installed.
  static void interrupt(const background_process& tool) {
    const auto id = tool.id();
    EXPECT_TRUE(
      becomes_true([id] { return has_signal(id, "SigCgt", SIGTERM); }));
    tool.signal(SIGINT);
    EXPECT_TRUE(
      becomes_true([id] { return !has_signal(id, "ShdPnd", SIGINT); }));
  }

  static std::string remaining_output(background_process& tool) {
    std::string output;
    for (auto line = tool.line(); line != "[no line]"; line = tool.line())
      output += line + "\n";
    return output;
  }

  /// Arguments of a job whose steps take so long that an interrupt arrives
  /// during a step.
  static constexpr auto job = "train --model lenet --data digits:2000 "
                              "--batch 1000 --epochs 1000 ";

  static void wait_for_training(background_process& tool) {
    for (std::string line; line.find("epoch 1/") == line.npos;)
      ASSERT_NE(line = tool.line(), "[no line]");
  }
};

TEST_F(Interrupt, BeforeTrainingEndsImmediatelyAndSavesNothing) {
  for (const auto* more : {"", "--workers 2", "--workers 2 --transport tls"}) {
    SCOPED_TRACE(more);
    // Generating so many digits takes seconds.
    auto x = start(std::string{"train --data digits:200000 "} + more);
    interrupt(x);
    EXPECT_EQ(remaining_output(x),
              "troupe: interrupted before training began; nothing was "
              "saved\n");
    EXPECT_EQ(x.end(), 3);
    EXPECT_EQ(files(), 0u);
  }
}

TEST_F(Interrupt, AFailureBeforeTrainingIsReportedInsteadOfTheSignalOfOthers) {
  const auto workers_of = [](const background_process& x) {
    const auto id = std::to_string(x.id());
    std::ifstream in{"/proc/" + id + "/task/" + id + "/children"};
    return std::vector<pid_t>(std::istream_iterator<pid_t>{in}, {});
  };
  auto tool = start("train --data digits:200000 --workers 2");
  std::vector<pid_t> workers;
  EXPECT_TRUE(becomes_true([&] {
    workers = workers_of(tool);
    return workers.size() == 2 && has_signal(workers[0], "SigCgt", SIGTERM)
           && has_signal(workers[1], "SigCgt", SIGTERM);
  }));
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGKILL);
  EXPECT_TRUE(becomes_true([&] { return workers_of(tool).size() <= 1; }));
  ::kill(workers[0], SIGTERM); // as the tool does after the grace period
  const auto said = remaining_output(tool);
  EXPECT_NE(said.find("worker 1: signal 9 (Killed)"), said.npos) << said;
  EXPECT_EQ(tool.end(), 1);
}

/// Ctrl-C at `troupe train 2>&1 | tee log` also ends `tee`. The tool can then
/// not write its output, but still saves the run.
TEST_F(Interrupt, SavesTheRunIfItsOutputIsAClosedPipe) {
  for (const auto* more : {"", "--workers 2"}) {
    SCOPED_TRACE(more);
    auto tool = start(
      std::string{"train --data digits:1400 --batch 20 --epochs 2000 "} + more);
    wait_for_training(tool);
    tool.stop_reading();
    interrupt(tool);
    EXPECT_EQ(tool.end(), 130);
    EXPECT_EQ(files(), 1u);
    std::filesystem::remove(folder / "interrupted.troupe");
  }
}

/// After the failure of a worker, the tool kills the other workers within 20 s.
/// After an interrupt, the tool lets the workers save for any time: this test
/// saves to a pipe that is read only after 22 s.
TEST_F(Interrupt, AllowsAnyTimeToSave) {
  using clock = std::chrono::steady_clock;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto tool = start("train --data digits:1400 --batch 20 --epochs 2000 "
                    "--workers 2 --save pipe");
  wait_for_training(tool);
  interrupt(tool);
  const auto later = clock::now() + std::chrono::seconds{22};
  for (auto now = clock::now(); now < later; now = clock::now())
    if (tool.line(std::chrono::ceil<std::chrono::milliseconds>(later - now))
        == "[no line]")
      break;
  EXPECT_GE(clock::now(), later) << "it has ended";
  const net::descriptor from{::open(pipe.c_str(), O_RDONLY | O_NONBLOCK)};
  std::string saved;
  pollfd news{from.get(), POLLIN, 0};
  while (::poll(&news, 1, 60'000) == 1
         && detail::read_available(from.get(), saved))
    ;
  const auto output = remaining_output(tool);
  EXPECT_NE(output.find("--resume pipe"), std::string::npos) << output;
  EXPECT_EQ(tool.end(), 130);
  put("m.troupe", saved);
  EXPECT_EQ(troupe("train --resume m.troupe --quiet --max-steps 3").code, 130);
}

TEST_F(Interrupt, TheSecondEndsTheProgramImmediately) {
  for (const auto* more : {"", "--workers 2"}) {
    SCOPED_TRACE(more);
    auto tool = start(std::string{job} + more);
    wait_for_training(tool);
    interrupt(tool);
    interrupt(tool);
    EXPECT_TRUE(remaining_output(tool).ends_with(
      "troupe: ended immediately by a second interrupt; "
      "what was not saved before is lost\n"));
    EXPECT_EQ(tool.end(), 3);
    EXPECT_EQ(files(), 0u);
  }
}

/// The end of a terminal sends SIGHUP several times.
TEST_F(Interrupt, AHangupSavesTheRunAndRemovesTheSecret) {
  std::filesystem::create_directory(folder / "tmp");
  for (const auto* more : {"", "--workers 2",
                           "--workers 1 --servers 1 --strategy "
                           "parameter_server"}) {
    SCOPED_TRACE(more);
    auto tool = start(
      std::string{"train --data digits:1400 --batch 20 --epochs 2000 "} + more,
      "export TMPDIR=tmp; ");
    wait_for_training(tool);
    for (int i = 0; i < 3; ++i) {
      tool.signal(SIGHUP);
      EXPECT_TRUE(
        becomes_true([&] { return !has_signal(tool.id(), "ShdPnd", SIGHUP); }));
    }
    const auto output = remaining_output(tool);
    EXPECT_NE(output.find("interrupted after step "), output.npos) << output;
    EXPECT_EQ(tool.end(), 130);
    EXPECT_TRUE(std::filesystem::remove(folder / "interrupted.troupe"));
    EXPECT_TRUE(std::filesystem::is_empty(folder / "tmp"));
  }
}

TEST_F(Interrupt, AHangupThatIsIgnoredHasNoEffect) {
  for (const auto* more : {"", "--workers 2"}) {
    SCOPED_TRACE(more);
    auto tool = start(
      std::string{"train --data digits:1400 --batch 20 --epochs 30 "} + more,
      "trap '' HUP; ");
    wait_for_training(tool);
    tool.signal(SIGHUP);
    const auto output = remaining_output(tool);
    EXPECT_NE(output.find("weights_sha256 "), output.npos) << output;
    EXPECT_EQ(tool.end(), 0);
  }
}

} // namespace
