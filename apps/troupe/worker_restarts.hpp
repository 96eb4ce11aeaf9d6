#pragma once

#include "local_launcher.hpp"
#include "restart_policy.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Returns the first failed end of a process that was not started again: it
/// causes the later ones. @pre a process has failed.
process_exit first_failed_end(const std::vector<process_exit>& ends);

/// Writes that a worker is killed because the others cannot reach it.
void warn_of_unreachable(const std::string& name);

/// Starts the workers of a job again that a signal has ended, so that they join
/// the running job. With parameter servers, so are the servers and the
/// evaluator, but not the chief.
/// Writes a warning for each of these events, and when it gives up: then the
/// warning lists all of them.
class worker_restarts {
public:
  using clock = restart_policy::clock;

  /// @param max_restarts of all workers together. Zero: no worker is started
  ///                     again, and nothing is written.
  explicit worker_restarts(std::uint64_t max_restarts);

  /// A process has ended: call it from `child_processes_options::on_end`.
  void on_end(const process_exit& ended);
  /// No worker is started again.
  void cancel() { policy_.cancel(); }
  /// Starts the workers whose time has come. Call it from `on_idle` of
  /// `local_launcher::wait`.
  /// @param start starts the worker with this name.
  /// @returns the time of the next call. None: no call is needed.
  std::optional<clock::time_point>
  start_due(const local_launcher& launcher,
            const std::function<void(const std::string& name)>& start);

private:
  void note(const std::string& event);

  restart_policy policy_;
  bool is_enabled_;
  bool has_given_up_ = false;
  clock::time_point begin_ = clock::now();
  std::string events_; ///< All that has happened. Empty: nothing.
};
