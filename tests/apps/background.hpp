#pragma once

#include "child.hpp"

#include <utility>

namespace troupe {

/// A program that runs in the background. The destructor kills it.
class background_process {
public:
  explicit background_process(const std::vector<std::string>& command) {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || (pid_ = ::fork()) < 0)
      throw std::runtime_error(std::strerror(errno));
    if (pid_ == 0)
      detail::exec_child(command, {}, out[1], STDERR_FILENO);
    ::close(out[1]);
    out_ = out[0];
  }
  ~background_process() {
    if (pid_ > 0) {
      signal(SIGKILL);
      end();
    }
    ::close(out_);
  }
  background_process(const background_process&) = delete;
  background_process& operator=(const background_process&) = delete;

  /// Waits for the next line of output.
  /// @returns the line without its line break, or "[no line]" after the timeout
  ///          or at the end of the output.
  std::string line(std::chrono::milliseconds timeout = std::chrono::seconds{
                     60}) {
    for (;;) {
      if (const auto end = output_.find('\n'); end != output_.npos) {
        const auto result = output_.substr(0, end);
        output_.erase(0, end + 1);
        return result;
      }
      pollfd ready{out_, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0
          || !detail::read_available(out_, output_))
        return "[no line]";
    }
  }

  /// Closes the reading end of the pipe to which the program writes.
  void stop_reading() { ::close(std::exchange(out_, -1)); }

  void signal(int number) const { ::kill(pid_, number); }
  pid_t id() const { return pid_; }

  /// Waits until the program has ended. @returns its exit code, or 128 + the
  /// number of the signal that ended it.
  int end() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string output_;
};

} // namespace troupe
