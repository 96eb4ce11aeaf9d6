#pragma once

#include "child.hpp"

#include <utility>

namespace troupe {

/// A program that runs in the background. The destructor kills it.
class background {
public:
  explicit background(const std::vector<std::string>& command) {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || (it_ = ::fork()) < 0)
      throw std::runtime_error(std::strerror(errno));
    if (it_ == 0)
      detail::become(command, {}, out[1], STDERR_FILENO);
    ::close(out[1]);
    out_ = out[0];
  }
  ~background() {
    if (it_ > 0) {
      signal(SIGKILL);
      end();
    }
    ::close(out_);
  }
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  /// Waits for the next line of output.
  /// @returns the line without its end, or "[no line]" after the timeout or at
  ///          the end of the output.
  std::string line(std::chrono::milliseconds patience = std::chrono::seconds{
                     60}) {
    for (;;) {
      if (const auto end = said_.find('\n'); end != said_.npos) {
        const auto one = said_.substr(0, end);
        said_.erase(0, end + 1);
        return one;
      }
      pollfd ready{out_, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(patience.count())) <= 0
          || !detail::take(out_, said_))
        return "[no line]";
    }
  }

  /// Closes the reading end of the pipe to which the program writes.
  void stop_reading() { ::close(std::exchange(out_, -1)); }

  void signal(int number) const { ::kill(it_, number); }
  pid_t id() const { return it_; }

  /// Waits until the program has ended. @returns its exit code, or 128 + the
  /// signal.
  int end() {
    int status = 0;
    ::waitpid(it_, &status, 0);
    it_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  pid_t it_ = -1;
  int out_ = -1;
  std::string said_;
};

} // namespace troupe
