#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// A program to start as a child process.
struct child_program {
  std::string name;                 ///< For messages, such as "worker 1".
  std::vector<std::string> command; ///< The first word is looked up in PATH.
  /// Variables that differ from this process's environment. Without a value,
  /// the variable is unset.
  std::map<std::string, std::optional<std::string>> environment{};
};

/// How a child process ended.
struct child_end {
  std::string name;
  int code = 0;   ///< 128 + the signal if a signal ended it, as in shells.
  int signal = 0; ///< Zero: the process exited.

  bool failed() const { return code != 0; }
};

/// @returns the exit as text: "exit code 3" or "signal 9 (Killed)".
std::string reason(const child_end& x);

struct children_options {
  /// Time that the other processes may continue after the first failure or a
  /// call of `signal`. Then each gets SIGTERM, or SIGKILL if it is stopped.
  /// After the same time again, all that still run get SIGKILL. A process that
  /// is stopped (SIGSTOP) at the first failure gets SIGKILL immediately.
  std::chrono::milliseconds grace{10'000};
  /// Called with each line of output, without its line break. A line of more
  /// than `max_line_bytes` arrives in pieces. `out` is true for standard output
  /// and false for standard error. An exception leaves `poll_once`.
  std::function<void(const std::string& name, bool out, std::string_view line)>
    on_line{};
};

/// Child processes that do not outlive this process. The destructor ends them;
/// the kernel kills them if the thread that started them ends first. In the
/// second case, processes that they started continue.
///
/// Each child leads its own process group, and its standard input is /dev/null.
/// Of this process's descriptors it inherits only the two for its output. An
/// object may be used by one thread at a time.
class children {
public:
  static constexpr std::size_t longest_line = 8192;

  explicit children(children_options options);
  /// Ends the processes that still run, within `grace_period`.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  /// Starts a program.
  /// @errors throws std::invalid_argument if there is no such program,
  ///         std::runtime_error if it cannot be started.
  void start(const child_program& what);

  /// Waits for output, for the end of a process, or until descriptor `extra` is
  /// readable (-1: no descriptor). Then passes on the output, reaps processes
  /// that ended, and sends signals that are due.
  /// @param max_wait maximum time to wait.
  void pump(std::chrono::milliseconds at_most, int also = -1);

  /// Sends a signal to all running processes, without a deadline for their end.
  void send(int number);
  /// Sends a signal to all running processes. They have to end within
  /// `grace_period` from now on.
  void signal(int number);

  bool running() const;
  /// The processes that have ended, in the order of their ends.
  const std::vector<child_end>& ended() const { return ended_; }
  /// The first process that ended with another exit code than 0.
  const std::optional<child_end>& first_failure() const { return failure_; }
  /// Names the children that were stopped (SIGSTOP) at the first failure and
  /// were killed for that reason. Empty if there were none. To be appended to
  /// an error message.
  const std::string& said_of_stopped() const { return stopped_; }

private:
  using clock = std::chrono::steady_clock;
  struct child;

  void close_in(std::chrono::milliseconds time, int number);
  void ask_to_end();
  void kill_stopped();
  void hear_of_ends();
  void reap(child& x);
  void press();
  int patience(std::chrono::milliseconds at_most) const;

  children_options options_;
  troupe::net::descriptor ends_; ///< An epoll; reports ends in their order.
  std::vector<std::unique_ptr<child>> all_;
  std::vector<child_end> ended_;
  std::optional<child_end> failure_;
  std::string stopped_;
  std::optional<clock::time_point>
    due_; ///< Time at which `next_signal_` is sent.
  int next_ = 0;
};
