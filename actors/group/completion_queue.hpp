#pragma once

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/wait_strategy.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/protocol/atoms.hpp"

#include <deque>
#include <optional>
#include <set>

namespace troupe {

/// Queue through which the roles of a replica group notify the thread that
/// called the group. That thread is not an actor. It begins one run or one task
/// (`for_each`) at a time.
class completion_queue final : public run_listener {
public:
  /// @param processes names of the processes, for the texts of errors.
  /// @param recorder receives the events of the runs. Null: none.
  explicit completion_queue(std::shared_ptr<wait_strategy> strategy,
                            named_processes processes = {},
                            std::shared_ptr<flight_recorder> recorder = {})
    : wait_strategy_{std::move(strategy)},
      processes_{std::move(processes)},
      recorder_{std::move(recorder)} {}

  const named_processes& processes() const { return processes_; }

  // -- the caller -------------------------------------------------------------

  /// Begins a run. In its errors and events, steps have the numbers that they
  /// have for the user.
  /// @param call  the call that the run belongs to.
  /// @param first number of the run's first step in the group.
  /// @returns the run's number; numbers count from 1.
  /// @errors throws std::logic_error if a run or a task is active, and
  ///         `job_error` if the group has terminated.
  std::uint64_t begin_run(const requesting_call& call = {},
                          std::uint64_t first = 0);

  /// Waits for the end of the run and calls `on_commit` for each commit. The
  /// second argument of `on_commit` is true if another commit is already in the
  /// queue.
  /// @returns the first step that was not run; nullopt if no notification
  ///          arrived for `timeout`.
  /// @errors throws `job_error` as `replica_group::run` does.
  std::optional<std::uint64_t>
  wait_for_run(const std::function<void(const commit_record&, bool)>& on_commit,
               std::chrono::milliseconds timeout);

  /// Begins a task that each replica of `replicas` runs once.
  /// @returns the task's number; numbers count from 1.
  /// @errors throws std::logic_error if a run or a task is active.
  std::uint64_t begin_tasks(std::span<const std::uint32_t> replicas);
  /// Waits until all replicas have run the task.
  /// @errors throws `job_error` that names a replica. The replica failed, or
  ///         did not finish within the timeout.
  void wait_for_tasks(std::chrono::milliseconds timeout);

  /// Returns the number of the active run; nullopt: none. May be called from
  /// any thread.
  std::optional<std::uint64_t> active_run();

  /// Returns true if the group has terminated. It can then run no more steps.
  bool group_terminated();

  /// Waits until `done` returns true. Calls `done` again after each
  /// notification.
  /// @returns false if `done` did not return true within the timeout.
  bool wait_until(const std::function<bool()>& done,
                  std::chrono::milliseconds timeout);

  /// Waits until `roles` roles have terminated since the queue was made.
  /// @returns false if they did not terminate within the timeout.
  bool wait_for_terminations(std::size_t roles,
                             std::chrono::milliseconds timeout);

  // -- the roles --------------------------------------------------------------

  void on_committed(std::uint64_t run, commit_record&& record) override;
  void on_completed(std::uint64_t run, std::uint64_t next) override;
  void on_aborted(std::uint64_t run, failure_report&& report) override;
  void on_group_terminated(const failure_report& report) override;
  void on_task_done(std::uint64_t task, std::uint32_t replica,
                    std::string&& error) override;
  /// Notes that a role has terminated.
  /// @param chief true for the chief or the local agent.
  void on_role_terminated(bool chief);
  /// Makes the waiting thread check its condition again.
  void notify();

private:
  /// Calls `change` with the lock held, and wakes the thread that called the
  /// group.
  template <class F>
  void update(F&& change);

  /// Records an event of a run, whose step has the number of the group.
  void note(flight_event event);
  void fail_run(failure_report&& report);
  void record_failure(std::uint64_t run, const failure_report& report,
                      const std::string& text) const;

  std::shared_ptr<wait_strategy> wait_strategy_;
  const named_processes processes_;
  const std::shared_ptr<flight_recorder> recorder_; ///< Null: none.
  std::mutex lock_;
  std::deque<commit_record> commits_;
  /// First step that was not run. None until the run is complete.
  std::optional<std::uint64_t> next_;
  std::optional<job_error> failure_; ///< Error that ended the run.
  /// A run that was rejected before it began here, and why.
  std::optional<std::pair<std::uint64_t, failure_report>> early_rejection_;
  bool run_active_ = false;
  std::optional<job_error> termination_; ///< Why the group has terminated.
  std::uint64_t run_ = 0;                ///< Number of the last run.
  requesting_call call_;         ///< The call that the last run belongs to.
  std::uint64_t first_step_ = 0; ///< First step of the last run.
  bool task_active_ = false;
  std::uint64_t task_ = 0; ///< Number of the last task.
  /// Replicas that have not run the active task.
  std::set<std::uint32_t> pending_replicas_;
  std::optional<failure_report> task_failure_; ///< First error of the task.
  std::size_t terminated_roles_ = 0; ///< Number of roles that have terminated.
};

} // namespace troupe
