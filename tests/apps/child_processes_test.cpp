#include "../../apps/troupe/child_processes.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace {

using namespace std::chrono_literals;

/// Shell scripts as child processes, and the last line that each script has
/// written.
struct scripts {
  void start(const std::string& name, const std::string& text) {
    children.start({name, {"/bin/sh", "-c", text}});
  }
  /// Polls until the script has written this line.
  void wait_for(const std::string& name, const std::string& line) {
    while (last_line[name] != line && children.running())
      children.poll_once(60s);
  }
  void wait_for_end() {
    while (children.running())
      children.poll_once(60s);
  }

  std::map<std::string, std::string> last_line;
  child_processes children{
    {.grace_period = 0ms,
     .on_line = [this](const std::string& name, bool, std::string_view line) {
       last_line[name] = line;
     }}};
};

constexpr auto stay = "while :; do :; done";

} // namespace

TEST(ChildProcesses, HaveNoDeadlineAfterSend) {
  scripts started;
  started.start("a", std::string{"trap 'for i in $(seq 500); do echo $i; done; "
                                 "exit 5' INT; echo ready; "}
                       + stay);
  started.wait_for("a", "ready");
  started.children.send(SIGINT);
  started.wait_for_end();
  EXPECT_EQ(started.last_line["a"], "500");
  ASSERT_EQ(started.children.ended().size(), 1u);
  EXPECT_EQ(started.children.ended()[0].code, 5);
  EXPECT_EQ(started.children.ended()[0].signal, 0);
}

TEST(ChildProcesses, EndWithinTheGracePeriodOfAFailureAfterSend) {
  scripts started;
  started.start("a", std::string{"trap 'exit 5' INT; echo ready; "} + stay);
  started.start("b", std::string{"trap '' INT TERM; echo ready; "} + stay);
  started.wait_for("a", "ready");
  started.wait_for("b", "ready");
  started.children.send(SIGINT);
  started.wait_for_end();
  ASSERT_EQ(started.children.ended().size(), 2u);
  EXPECT_EQ(started.children.ended()[0].name, "a");
  EXPECT_EQ(started.children.ended()[0].code, 5);
  EXPECT_EQ(started.children.ended()[1].signal, SIGKILL);
}

TEST(ChildProcesses, EndWithinTheGracePeriodAfterSignal) {
  scripts started;
  started.start("a", std::string{"trap '' INT TERM; echo ready; "} + stay);
  started.wait_for("a", "ready");
  started.children.signal(SIGINT);
  started.wait_for_end();
  ASSERT_TRUE(started.children.first_failure());
  EXPECT_EQ(started.children.first_failure()->signal, SIGKILL);
}
