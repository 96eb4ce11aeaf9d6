#include "background.hpp"
#include "tool.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <thread>

// The effect of SIGINT on `troupe train` in each phase of a run.

namespace {

using namespace troupe;

class Interrupt : public tool_test {
protected:
  /// Starts the tool with standard error redirected to standard output.
  background started(const std::string& words) const {
    return background{{"/bin/sh", "-c",
                       "cd " + folder.string() + " && exec " TROUPE_TOOL " "
                         + words + " 2>&1"}};
  }

  /// @returns true if a signal set of /proc/<id>/status contains `number`.
  static bool has(pid_t id, const std::string& set, int number) {
    std::ifstream in{"/proc/" + std::to_string(id) + "/status"};
    for (std::string line; std::getline(in, line);)
      if (line.starts_with(set + ":"))
        return (std::stoull(line.substr(set.size() + 1), nullptr, 16)
                  >> (number - 1)
                & 1)
               != 0;
    return false;
  }

  template <class F>
  static void wait_until(F&& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }

  /// Sends SIGINT when the tool has a handler for it, and waits until the
  /// signal is no longer pending. The tool sets the handler of SIGTERM after
  /// that of SIGINT. The shell that starts the tool has a handler of SIGINT
  /// alone.
  static void interrupt(const background& x) {
    const auto id = x.id();
    wait_until([id] { return has(id, "SigCgt", SIGTERM); });
    x.signal(SIGINT);
    wait_until([id] { return !has(id, "ShdPnd", SIGINT); });
  }

  static std::string rest(background& x) {
    std::string all;
    for (auto one = x.line(); one != "[no line]"; one = x.line())
      all += one + "\n";
    return all;
  }

  /// A job with long steps, so that an interrupt arrives during a step.
  static constexpr auto job = "train --model lenet --data digits:2000 "
                              "--batch 1000 --epochs 1000 ";

  static void wait_for_training(background& x) {
    for (std::string line; line.find("epoch 1/") == line.npos;)
      ASSERT_NE(line = x.line(), "[no line]");
  }
};

TEST_F(Interrupt, BeforeTrainingEndsImmediatelyAndSavesNothing) {
  for (const auto* more : {"", "--workers 2", "--workers 2 --transport tls"}) {
    SCOPED_TRACE(more);
    // generating so many digits takes seconds
    auto x = started(std::string{"train --data digits:200000 "} + more);
    interrupt(x);
    EXPECT_EQ(rest(x), "troupe: interrupted before training began; nothing was "
                       "saved\n");
    EXPECT_EQ(x.end(), 3);
    EXPECT_EQ(files(), 0u);
  }
}

TEST_F(Interrupt, AFailureBeforeTrainingIsReportedInsteadOfTheSignalOfOthers) {
  const auto workers_of = [](const background& x) {
    const auto id = std::to_string(x.id());
    std::ifstream in{"/proc/" + id + "/task/" + id + "/children"};
    return std::vector<pid_t>(std::istream_iterator<pid_t>{in}, {});
  };
  auto x = started("train --data digits:200000 --workers 2");
  std::vector<pid_t> workers;
  wait_until([&] {
    workers = workers_of(x);
    return workers.size() == 2 && has(workers[0], "SigCgt", SIGTERM)
           && has(workers[1], "SigCgt", SIGTERM);
  });
  ASSERT_EQ(workers.size(), 2u);
  ::kill(workers[1], SIGKILL);
  wait_until([&] { return workers_of(x).size() == 1; });
  ::kill(workers[0], SIGTERM); // as the tool does after the grace period
  const auto said = rest(x);
  EXPECT_NE(said.find("worker 1: signal 9 (Killed)"), said.npos) << said;
  EXPECT_EQ(x.end(), 1);
}

/// In `troupe train 2>&1 | tee log`, Ctrl-C ends `tee` too.
TEST_F(Interrupt, SavesTheRunIfItsOutputIsAClosedPipe) {
  for (const auto* more : {"", "--workers 2"}) {
    SCOPED_TRACE(more);
    auto x = started(
      std::string{"train --data digits:1400 --batch 20 --epochs 2000 "} + more);
    wait_for_training(x);
    x.stop_reading();
    interrupt(x);
    EXPECT_EQ(x.end(), 130);
    EXPECT_EQ(files(), 1u);
    std::filesystem::remove(folder / "interrupted.troupe");
  }
}

/// After the failure of a worker, the others are killed within 20 s. Here the
/// file is a pipe that is read only after that time, so saving takes longer.
TEST_F(Interrupt, AllowsAnyTimeToSave) {
  using clock = std::chrono::steady_clock;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto x = started("train --data digits:1400 --batch 20 --epochs 2000 "
                   "--workers 2 --save pipe");
  wait_for_training(x);
  interrupt(x);
  const auto later = clock::now() + std::chrono::seconds{22};
  for (auto now = clock::now(); now < later; now = clock::now())
    if (x.line(std::chrono::ceil<std::chrono::milliseconds>(later - now))
        == "[no line]")
      break;
  EXPECT_GE(clock::now(), later) << "it has ended";
  const net::descriptor from{::open(pipe.c_str(), O_RDONLY | O_NONBLOCK)};
  std::string saved;
  pollfd news{from.get(), POLLIN, 0};
  while (::poll(&news, 1, 60'000) == 1 && detail::take(from.get(), saved))
    ;
  EXPECT_NE(rest(x).find("--resume pipe"), std::string::npos);
  EXPECT_EQ(x.end(), 130);
  put("m.troupe", saved);
  EXPECT_EQ(troupe("train --resume m.troupe --quiet --max-steps 3").code, 130);
}

TEST_F(Interrupt, TheSecondEndsTheProgramImmediately) {
  for (const auto* more : {"", "--workers 2"}) {
    SCOPED_TRACE(more);
    auto x = started(std::string{job} + more);
    wait_for_training(x);
    interrupt(x);
    interrupt(x);
    EXPECT_TRUE(
      rest(x).ends_with("troupe: ended at once by a second interrupt; "
                        "what was not saved before is lost\n"));
    EXPECT_EQ(x.end(), 3);
    EXPECT_EQ(files(), 0u);
  }
}

} // namespace
