#pragma once

#include "tool.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace troupe {

/// Tests that launch a shell script as a job. In the script, `is 1` is true in
/// the process whose index in TF_CONFIG is 1, and `stay` does not return.
class Launch : public tool_test {
protected:
  Launch() { EXPECT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0); }

  void script(const std::string& text) const {
    put("job.sh",
        "is() { case $TF_CONFIG in *'\"index\":'$1,*) ;; *) false;; esac; }\n"
        "stay() { cat fifo & wait; wait; }\n"
          + text + "\n");
  }

  outcome launch(const std::string& options, child_options more = {}) const {
    return troupe("launch " + options + " -- sh job.sh", std::move(more));
  }

  /// Returns the output of each process, by the name of the process.
  static std::map<std::string, std::string>
  output_by_name(const std::string& text) {
    std::map<std::string, std::string> outputs;
    std::istringstream input{text};
    for (std::string line; std::getline(input, line);) {
      const auto end = line.find("] ");
      EXPECT_EQ(line.rfind("[", 0), 0u) << line;
      EXPECT_NE(end, line.npos) << line;
      outputs[line.substr(1, end - 1)] += line.substr(end + 2) + "\n";
    }
    return outputs;
  }

  static std::string last_line_of(const std::string& text) {
    const auto whole = text.substr(0, text.find_last_not_of('\n') + 1);
    return whole.substr(whole.rfind('\n') + 1);
  }

  /// Waits until a process has ended. It need not be a child of this process.
  static void wait_for_end(pid_t id) {
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
    if (pidfd < 0) {
      EXPECT_EQ(errno, ESRCH); // it has ended already
      return;
    }
    pollfd end{pidfd, POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, 30'000), 1) << "process " << id << " still runs";
    ::close(pidfd);
  }

  /// Calls a function once, when `count` processes have written "ready" to
  /// standard error.
  static child_options when_ready(std::ptrdiff_t count,
                                  std::function<void(pid_t)> action) {
    child_options options;
    options.on_error_output =
      [=, done = false](pid_t tool, const std::string& err) mutable {
        std::ptrdiff_t ready = 0;
        for (auto position = err.find("ready\n"); position != err.npos;
             position = err.find("ready\n", position + 1))
          ++ready;
        if (!std::exchange(done, done || ready >= count) && ready >= count)
          action(tool);
      };
    return options;
  }
};

} // namespace troupe
