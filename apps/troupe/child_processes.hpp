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

/// A program to start beside this one.
struct child_program {
  std::string name;                 ///< In words: "worker 1".
  std::vector<std::string> command; ///< Its first word is looked up in PATH.
  /// What differs from ours; none: the variable is unset.
  std::map<std::string, std::optional<std::string>> environment{};
};

/// How one ended.
struct child_end {
  std::string name;
  int code = 0;   ///< 128 + the signal, if that ended it, as shells have it.
  int signal = 0; ///< 0: it exited.

  bool failed() const { return code != 0; }
};

/// "exit code 3", "signal 9 (Killed)"
std::string reason(const child_end& x);

struct children_options {
  /// How long the others may go on once one has failed, or `signal` was
  /// called; then they get SIGTERM, or SIGKILL if they are stopped, and as long
  /// after that SIGKILL. Those that are stopped when one fails cannot go on:
  /// they get SIGKILL at once.
  std::chrono::milliseconds grace{10'000};
  /// Hears each line (of at most `longest_line` bytes, longer ones in pieces)
  /// without its break; `out` says of which stream. What it throws leaves pump.
  std::function<void(const std::string& name, bool out, std::string_view line)>
    on_line{};
};

/// Programs that this one started and that do not outlive it: they are ended
/// with this object, and by the kernel if the thread that started them ends
/// first (what they started in turn is then left to them).
/// Each leads a process group of its own, reads nothing (/dev/null), and has no
/// more of our descriptors than its output. For one thread at a time.
class children {
public:
  static constexpr std::size_t longest_line = 8192;

  explicit children(children_options options);
  /// Ends those that still run, as `grace` says.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  /// @errors throws std::invalid_argument if there is no such program,
  ///         std::runtime_error if it cannot be started.
  void start(const child_program& what);

  /// Moves what they wrote and hears who ended, waiting for news or until
  /// descriptor `also` (-1: none) can be read, `at_most` this long.
  void pump(std::chrono::milliseconds at_most, int also = -1);

  /// Sends it to all that run. They may take as long as they need.
  void send(int number);
  /// Sends it to all that run. From now on they have to end within `grace`.
  void signal(int number);

  bool running() const;
  /// Those that have ended, in their order.
  const std::vector<child_end>& ended() const { return ended_; }
  /// The first that ended with anything but exit code 0.
  const std::optional<child_end>& first_failure() const { return failure_; }
  /// Who was stopped when it failed, and was killed for it; for the end of a
  /// sentence.
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
  troupe::net::descriptor ends_; ///< An epoll: tells ends in their order.
  std::vector<std::unique_ptr<child>> all_;
  std::vector<child_end> ended_;
  std::optional<child_end> failure_;
  std::string stopped_;
  std::optional<clock::time_point> due_; ///< Then they get `next_`.
  int next_ = 0;
};
