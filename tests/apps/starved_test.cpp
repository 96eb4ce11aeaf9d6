#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

// A machine that has no processor time left.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// Child processes that keep all processors busy for some time, and end then.
class busy_processes {
public:
  void start(unsigned count, std::chrono::milliseconds duration) {
    const auto end = std::chrono::steady_clock::now() + duration;
    for (unsigned i = 0; i < count; ++i) {
      const auto child = ::fork();
      ASSERT_GE(child, 0);
      if (child > 0) {
        running_.push_back(child);
        continue;
      }
      while (std::chrono::steady_clock::now() < end) {
      }
      ::_exit(0);
    }
  }
  ~busy_processes() {
    for (const auto child : running_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

  /// Reaps those that have ended. @returns the number of processes that have
  /// used a processor and have ended by themselves.
  unsigned ended() {
    std::erase_if(running_, [&](pid_t child) {
      int status = 0;
      rusage used{};
      if (::wait4(child, &status, WNOHANG, &used) != child)
        return false;
      const bool was_busy =
        used.ru_utime.tv_sec > 0 || used.ru_utime.tv_usec > 0;
      ended_ += WIFEXITED(status) && was_busy;
      return true;
    });
    return ended_;
  }

private:
  std::vector<pid_t> running_;
  unsigned ended_ = 0;
};

class StarvedMachine : public worker_test {};

/// The busy processes begin after the first epoch, and end before the last one.
/// A delay in each step lets the job last for more than 6 s.
TEST_F(StarvedMachine, LosesNoWorkerAndChangesNoBit) {
  const std::string training =
    "train --data digits:280 --batch 20 --epochs 12 --replicas 4 ";
  const auto expected = weights_of(training + "--strategy one_device");
  const auto count = 2 * std::max(1u, std::thread::hardware_concurrency());
  busy_processes busy;
  bool has_started = false;
  unsigned ended_in_time = 0;
  child_options options;
  options.on_error_output = [&](pid_t, const std::string& err) {
    if (!has_started && err.find("epoch 1/12") != err.npos) {
      has_started = true;
      busy.start(count, 3s);
    } else if (err.find("epoch 12/12") == err.npos) {
      ended_in_time = busy.ended();
    }
  };
  put("plan.json", R"({"faults": [{"kind": "slow", "step": 0, "delay_ms": 40,
                       "process": 3}]})");
  const auto done =
    troupe(training + "--workers 4 --faults plan.json", options);
  SCOPED_TRACE(done.out + done.err);
  EXPECT_TRUE(has_started);
  EXPECT_EQ(ended_in_time, count) << "the job has ended too early";
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos);
  for (const std::string text :
       {"was lost", "the job goes on", "does not answer", "excluded"})
    EXPECT_EQ(done.err.find(text), done.err.npos) << text;
}

} // namespace
