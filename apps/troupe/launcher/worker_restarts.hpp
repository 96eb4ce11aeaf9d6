#pragma once

#include "troupe/apps/troupe/launcher/local_launcher.hpp"
#include "troupe/apps/troupe/launcher/restart_policy.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// Returns the first failed end of a process that was not started again: it
/// causes the later ones. @pre a process has failed.
process_exit first_failed_end(const std::vector<process_exit>& ends);

/// Writes that a worker is killed because the others cannot reach it.
void warn_of_unreachable(const std::string& name);

/// Why the launcher has ended a job.
struct job_loss {
  process_exit process; ///< Process whose loss has ended the job.
  std::string how;      ///< What it was: "it was the last ...".
};

/// Starts workers again that a signal has ended, or that have left because a
/// device had failed. They join the running job. With parameter servers, so are
/// the servers and the evaluator, but not the chief.
///
/// Workers of a job without servers begin together. If one is lost before that,
/// it takes its place in the start again; if others fail because of the loss,
/// all are started again. If the lost one is not started again, the job is
/// ended. The job is also ended if no process is left that has its state.
///
/// Writes a warning for each of these events, and when it gives up: then the
/// warning lists all of them.
class worker_restarts {
public:
  using clock = restart_policy::clock;

  /// @param max_restarts of all workers together. Zero: no worker is started
  ///                     again, and nothing is written.
  /// @param begin_together no worker can begin without the others.
  worker_restarts(std::uint64_t max_restarts, bool begin_together);

  /// A process has ended: call it from `child_processes_options::on_end`.
  void on_end(const process_exit& ended);
  /// Call it as `child_processes_options::is_loss`.
  bool is_loss(const process_exit& failed);
  /// No worker is started again.
  void cancel() { policy_.cancel(); }
  /// Starts the workers whose time has come. Call it from `on_idle` of
  /// `local_launcher::wait`.
  /// @param start starts the worker with this name.
  /// @returns the time of the next call. None: no call is needed.
  std::optional<clock::time_point>
  start_due(local_launcher& launcher,
            const std::function<void(const std::string& name)>& start);

  /// Why the job was ended. None: it was not, or for another reason.
  const std::optional<job_loss>& loss() const { return loss_; }

private:
  using start_function = std::function<void(const std::string& name)>;

  void note(const std::string& event);
  const char* end_of(const std::string& name) const;
  void end_if_lost(child_processes& children);
  std::optional<clock::time_point> start_all(local_launcher& launcher,
                                             const start_function& start);
  void start_one(const std::string& name, const start_function& start);

  restart_policy policy_;
  const bool is_enabled_, begin_together_;
  bool has_given_up_ = false;
  bool was_one_killed_ = false; ///< One was killed since all were started.
  /// All workers are to be started again. They end before that.
  bool all_start_ = false;
  std::optional<clock::time_point> all_due_; ///< Time of the start of all.
  /// Workers whose last process has ended because its device had failed.
  std::set<std::string> without_device_;
  /// A worker that was killed before the job began, and is not started again.
  std::optional<process_exit> lost_in_start_;
  std::optional<job_loss> loss_;
  clock::time_point begin_ = clock::now();
  std::string events_; ///< All that has happened. Empty: nothing.
};
