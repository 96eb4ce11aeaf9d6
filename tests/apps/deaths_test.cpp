#include "tool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <regex>
#include <utility>

// Tests of jobs in which one of several processes is killed or stopped.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

class Deaths : public tool_test {
protected:
  /// Runs the program programs/reducer.cpp as a job.
  outcome job(int processes, const std::string& words) const {
    return troupe("launch -n " + std::to_string(processes)
                  + " --grace 2 -- " TROUPE_PROGRAMS "/reducer " + words);
  }

  /// Expects that a process printed an error with this code and these texts.
  static void expect_error(const outcome& result, const std::string& process,
                           const char* code,
                           std::initializer_list<const char*> expected) {
    const auto begin = "[" + process + "] error " + code + ": ";
    const auto position = result.err.find(begin);
    ASSERT_NE(position, result.err.npos) << result.err;
    const auto line =
      result.err.substr(position, result.err.find('\n', position) - position);
    for (const auto* text : expected)
      EXPECT_NE(line.find(text), line.npos) << line;
  }

  /// Expects that the others have gone on after the end of process `victim` in
  /// step 0, at most `max_delay` after it raised its signal. The new leader has
  /// said why, with the step and a sum.
  static void expect_survivors(const outcome& result, int victim,
                               const std::string& victim_name) {
    SCOPED_TRACE(result.err);
    EXPECT_EQ(result.code, 128 + SIGKILL);
    for (const std::string& text :
         {victim_name, std::string{" in step 0: "},
          std::string{"waits for the sum of bucket "},
          std::string{"still missing replica"},
          std::string{"; the job goes on with 2 processes"}})
      EXPECT_NE(result.err.find(text), result.err.npos) << text;
    std::smatch raise_time;
    const std::regex raised{"raises at (\\d+)"};
    ASSERT_TRUE(std::regex_search(result.err, raise_time, raised));
    for (int process = 0; process < 3; ++process) {
      const auto name = "\\[worker " + std::to_string(process) + "\\] ";
      const std::regex end{name + "two sums in (\\d+) calls, at (\\d+)"};
      std::smatch fields;
      const bool has_ended = std::regex_search(result.err, fields, end);
      EXPECT_EQ(has_ended, process != victim);
      if (!has_ended)
        continue;
      const std::chrono::milliseconds delay{std::stoll(fields[2])
                                            - std::stoll(raise_time[1])};
      EXPECT_GE(delay, 0ms);
      EXPECT_LE(delay, max_delay);
    }
  }
  static constexpr std::chrono::milliseconds max_delay{5000};

  static std::ptrdiff_t count(const std::string& text, const char* pattern) {
    std::ptrdiff_t n = 0;
    for (auto position = text.find(pattern); position != text.npos;
         position = text.find(pattern, position + 1))
      ++n;
    return n;
  }
};

TEST_F(Deaths, AJobWithoutAFailureEndsWithCodeZero) {
  const auto x = job(3, "well");
  EXPECT_EQ(x.code, 0) << x.err;
  EXPECT_EQ(count(x.err, "sum 3"), 9) << x.err;
}

TEST_F(Deaths, A23ASumThatOneOfThreeBeginsNamesTheTwoOthersWithinTheTimeout) {
  const auto x = job(3, "absent 1000");
  EXPECT_EQ(x.code, 3) << x.err;
  std::smatch delay;
  const std::regex fails{"fails after (\\d+) ms"};
  ASSERT_TRUE(std::regex_search(x.err, delay, fails)) << x.err;
  EXPECT_LE(std::chrono::milliseconds{std::stoll(delay[1])}, max_delay);
  expect_error(x, "worker 0", "stalled", {"worker 1", "worker 2"});
}

class DeathsBetweenSums : public Deaths,
                          public ::testing::WithParamInterface<const char*> {};

TEST_P(DeathsBetweenSums, OfOneWorkerAreSurvived) {
  const auto x = job(2, GetParam());
  EXPECT_EQ(x.code, 128 + SIGKILL) << x.err;
  // The sum over two replicas is 2. Both workers have printed the first sum,
  // and worker 0, which then has both replicas, the second one.
  EXPECT_EQ(count(x.err, "sum 2"), 3) << x.err;
  EXPECT_NE(x.err.find("; the job goes on with 1 process"), x.err.npos)
    << x.err;
}

// In a run, and outside of one.
INSTANTIATE_TEST_SUITE_P(All, DeathsBetweenSums,
                         ::testing::Values("killed-between", "killed-outside"));

TEST_F(Deaths, AWorkerKilledDuringAStepIsSurvivedAndNamed) {
  expect_survivors(job(3, "killed-amid"), 1, "worker 1 was lost in step 0: ");
}

TEST_F(Deaths, ALeaderKilledDuringAStepIsSurvivedAndNamed) {
  expect_survivors(job(3, "leader-killed-amid"), 0, "worker 0, the leader, ");
}

TEST_F(Deaths, AWorkerStoppedDuringAStepIsUnreachable) {
  const auto x = job(2, "stopped-amid");
  EXPECT_EQ(x.code, 3) << x.err;
  expect_error(x, "worker 0", "unreachable", {"worker 1", "step 0", "sum"});
  EXPECT_NE(x.err.find("lost process 1 in step 0, missed by replica "),
            x.err.npos)
    << x.err;
}

/// Two hosts, emulated by namespaces of networks and of processes: there is a
/// link between them, and neither sees the end of the other's process.
class Hosts : public Deaths {
protected:
  void SetUp() override {
    Deaths::SetUp();
    if (::geteuid() != 0 || !shell("ip -V >/dev/null 2>&1"))
      GTEST_SKIP() << "network namespaces need root and iproute2";
    const auto id = std::to_string(::getpid());
    a_ = "ta" + id;
    b_ = "tb" + id;
    if (!shell("ip netns add " + a_ + " && ip netns add " + b_))
      GTEST_SKIP() << "this machine allows no network namespaces";
    ASSERT_TRUE(shell("ip -n " + a_
                      + " link add eth type veth peer name eth netns " + b_));
    for (const auto& [host, last] : {std::pair{a_, "1"}, std::pair{b_, "2"}})
      ASSERT_TRUE(shell(
        "ip -n " + host + " addr add 10.9.8." + last + "/24 dev eth && ip -n "
        + host + " link set eth up && ip -n " + host + " link set lo up"));
    put("secret", "a secret of this test, and of no other");
    std::filesystem::permissions(folder / "secret",
                                 std::filesystem::perms::owner_read);
  }
  void TearDown() override {
    if (!a_.empty())
      shell("ip netns del " + a_ + " 2>/dev/null; ip netns del " + b_
            + " 2>/dev/null");
    Deaths::TearDown();
  }

  static bool shell(const std::string& command) {
    return std::system(command.c_str()) == 0;
  }

  std::string worker(const std::string& host, int index) const {
    return "TROUPE_SECRET_FILE=" + (folder / "secret").string()
           + " TF_CONFIG='{\"cluster\":{\"worker\":[\"10.9.8.1:7000\",\"10.9.8."
             "2:"
             "7000\"]},\"task\":{\"type\":\"worker\",\"index\":"
           + std::to_string(index) + "}}' ip netns exec " + host
           + " unshare --pid --fork --mount-proc --kill-child " TROUPE_PROGRAMS
             "/reducer long & ";
  }

  std::string a_, b_;
};

TEST_F(Hosts, BothSidesOfALostLinkNameEachOther) {
  child_options options;
  options.on_error_output =
    [this, cut = false](pid_t, const std::string& err) mutable {
      if (!cut && count(err, "sum 2") > 10)
        cut = shell("ip -n " + a_ + " link set eth down");
    };
  const auto x = run_child(
    {"/bin/sh", "-c", worker(a_, 0) + worker(b_, 1) + "wait"}, options);
  EXPECT_EQ(count(x.err, "error unreachable: "), 2) << x.err;
  EXPECT_NE(x.err.find("unreachable: worker 0"), x.err.npos) << x.err;
  EXPECT_NE(x.err.find("unreachable: worker 1"), x.err.npos) << x.err;
}

} // namespace
