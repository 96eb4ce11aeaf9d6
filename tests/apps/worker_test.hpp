#pragma once

#include "signal_sets.hpp"
#include "tool.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

namespace troupe {

/// Base of tests that send signals to the workers of a job.
class worker_test : public tool_test {
protected:
  /// In `run_with_signals`: the process that the test has started.
  static constexpr int parent = -1;

  static constexpr auto long_job =
    "train --data digits:1400 --batch 20 --epochs 2000 --workers 2";

  /// Returns the process id of a worker that the tool has started. Zero: none.
  static pid_t process_of(pid_t tool, int worker) {
    return child_with(tool, "\"index\":" + std::to_string(worker) + ",");
  }

  /// Returns the process id of a child whose environment contains a text. Zero:
  /// none.
  static pid_t child_with(pid_t tool, const std::string& wanted) {
    std::ifstream children{"/proc/" + std::to_string(tool) + "/task/"
                           + std::to_string(tool) + "/children"};
    for (pid_t one; children >> one;) {
      std::ifstream input{"/proc/" + std::to_string(one) + "/environ"};
      const std::string all{std::istreambuf_iterator<char>{input}, {}};
      if (all.find(wanted) != all.npos)
        return one;
    }
    return 0;
  }

  /// Sends a signal. Waits until SIGTERM is no longer pending, so that a
  /// process that gets it twice handles both.
  static void send(pid_t target, int signal) {
    ::kill(target, signal);
    if (signal == SIGTERM)
      test::becomes_true([&] { return !has_signal(target, "ShdPnd", signal); });
  }

  /// Sends a signal to workers, or to the tool (`parent`), after the first
  /// epoch of a run, in this order.
  outcome run_with_signals(const std::vector<int>& workers, int signal,
                           const std::string& command) const {
    child_options options;
    bool sent = false;
    options.on_error_output = [=](pid_t tool, const std::string& err) mutable {
      if (sent || err.find("epoch 1/") == err.npos)
        return;
      for (const auto worker : workers) {
        const auto target = worker == parent ? tool : process_of(tool, worker);
        EXPECT_GT(target, 0);
        if (target > 0)
          send(target, signal);
      }
      sent = true;
    };
    return troupe(command, options);
  }

  /// Writes plan.json, a plan of faults by which a process of a job waits in
  /// each step. So the job lasts until another process has joined.
  void slow_down(int process) const {
    constexpr int delay_ms = test::has_address_sanitizer ? 80 : 40;
    put("plan.json", R"({"faults": [{"kind": "slow", "step": 0, "delay_ms": )"
                       + std::to_string(delay_ms) + R"(, "process": )"
                       + std::to_string(process) + "}]}");
  }

  outcome run_with_signal(int worker, int signal,
                          const std::string& command = long_job) const {
    return run_with_signals({worker}, signal, command);
  }
};

} // namespace troupe
