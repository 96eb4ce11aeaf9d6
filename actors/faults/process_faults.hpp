#pragma once

#include "troupe/net/base/address.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

// Faults of a whole process, which it inflicts on itself.

namespace troupe::injection {

/// How a process inflicts faults on itself. A test may replace the functions.
struct process_faults {
  /// True: of two processes, the one with the lower number has dialed the
  /// other. False: the one with the higher number has.
  bool lower_dials = false;
  /// Does not return, except in a test.
  std::function<void()> kill;
  /// Returns when the process has been stopped and continued.
  std::function<void(std::chrono::nanoseconds)> stop;
  /// Ends the connections to one other process, or to all of them.
  /// @returns the number of connections.
  std::function<std::size_t(std::optional<std::uint32_t> peer)> cut;
  /// Waits. Called on the thread of a replica.
  std::function<void(std::chrono::nanoseconds)> wait;
};

/// Kills this process with SIGKILL.
[[noreturn]] void kill_this_process();

/// Stops this process with SIGSTOP, and continues it with SIGCONT after the
/// duration. A short-lived child process sends both signals, so that no
/// launcher is needed.
void stop_this_process(std::chrono::nanoseconds time);

/// Ends this process's connections to other processes of its job, both those
/// that it has dialed and those that it has accepted.
/// @param addresses addresses on which the processes listen, by task.
/// @param own_task  task of this process.
/// @param peer      task of the other process, which this one has dialed. None:
///                  all.
/// @returns the number of connections.
std::size_t cut_connections(const std::vector<net::address>& addresses,
                            std::uint32_t own_task,
                            std::optional<std::uint32_t> peer);

/// Returns the functions that act on this process.
/// @param lower_dials as in `process_faults`.
process_faults real_process_faults(std::vector<net::address> addresses,
                                   std::uint32_t own_task, bool lower_dials);

} // namespace troupe::injection
