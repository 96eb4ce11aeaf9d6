#include "../../apps/troupe/child_processes.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace {

using namespace std::chrono_literals;

/// Shell scripts as child processes, and the last line that each has written.
struct scripts {
  void start(const std::string& name, const std::string& text) {
    all.start({name, {"/bin/sh", "-c", text}});
  }
  /// Polls until a script has written that line.
  void wait_for(const std::string& name, const std::string& line) {
    while (last[name] != line && all.running())
      all.pump(60s);
  }
  void wait_for_end() {
    while (all.running())
      all.pump(60s);
  }

  std::map<std::string, std::string> last;
  children all{
    {.grace = 0ms,
     .on_line = [this](const std::string& name, bool, std::string_view line) {
       last[name] = line;
     }}};
};

constexpr auto stay = "while :; do :; done";

} // namespace

TEST(ChildProcesses, HaveNoDeadlineAfterSend) {
  scripts x;
  x.start("a", std::string{"trap 'for i in $(seq 500); do echo $i; done; "
                           "exit 5' INT; echo ready; "}
                 + stay);
  x.wait_for("a", "ready");
  x.all.send(SIGINT);
  x.wait_for_end();
  EXPECT_EQ(x.last["a"], "500");
  ASSERT_EQ(x.all.ended().size(), 1u);
  EXPECT_EQ(x.all.ended()[0].code, 5);
  EXPECT_EQ(x.all.ended()[0].signal, 0);
}

TEST(ChildProcesses, EndWithinTheGracePeriodOfAFailureAfterSend) {
  scripts x;
  x.start("a", std::string{"trap 'exit 5' INT; echo ready; "} + stay);
  x.start("b", std::string{"trap '' INT TERM; echo ready; "} + stay);
  x.wait_for("a", "ready");
  x.wait_for("b", "ready");
  x.all.send(SIGINT);
  x.wait_for_end();
  ASSERT_EQ(x.all.ended().size(), 2u);
  EXPECT_EQ(x.all.ended()[0].name, "a");
  EXPECT_EQ(x.all.ended()[0].code, 5);
  EXPECT_EQ(x.all.ended()[1].signal, SIGKILL);
}

TEST(ChildProcesses, EndWithinTheGracePeriodAfterSignal) {
  scripts x;
  x.start("a", std::string{"trap '' INT TERM; echo ready; "} + stay);
  x.wait_for("a", "ready");
  x.all.signal(SIGINT);
  x.wait_for_end();
  ASSERT_TRUE(x.all.first_failure());
  EXPECT_EQ(x.all.first_failure()->signal, SIGKILL);
}
