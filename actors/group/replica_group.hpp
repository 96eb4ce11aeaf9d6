#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/strategies/membership/view_messages.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Interface through which code above the actors runs a job's replicas. This
// header does not depend on CAF.

namespace troupe {

class job_status_source;

/// The replicas of a job, ready to run steps. If the job has several processes,
/// each process has its own group object. All processes must call `run` with
/// the same steps in the same order. In each process, `on_commit` gets the
/// commits of the whole job.
class replica_group {
public:
  virtual ~replica_group() = default;

  /// The replicas of the job and this process among its processes. Step
  /// functions and functions given to `for_each` are called only for the
  /// replicas of this process, with their ids in the job.
  virtual const local_placement& replica_placement() const = 0;

  /// Returns the name of a process of `replica_placement` in texts, such as
  /// "chief 0". It belongs to its task, so a view change does not alter it. If
  /// the processes have no tasks: "worker" and the number.
  virtual std::string process_name(std::uint32_t process) const {
    return "worker " + std::to_string(process);
  }

  /// Returns the number of replicas of the whole job.
  std::uint32_t replicas() const { return replica_placement().job.replicas(); }

  /// Returns the maximum number of steps that a replica runs ahead of the last
  /// commit. At most this number of commits wait for their call of `on_commit`.
  /// After `stop`, replicas therefore run at most 2 * max_steps_ahead() steps
  /// beyond the last step whose `on_commit` has returned.
  virtual std::uint64_t max_steps_ahead() const { return default_step_window; }

  /// Runs the requested steps. The run ends earlier if `stop` is called.
  /// @returns the first step that was not run; all steps before it are
  ///          committed.
  /// @errors throws `job_error`.
  ///         ec::stalled: the text names role, operation, step and the missing
  ///         replicas, or the processes that did not join the run.
  ///         ec::peer_lost: a replica or a process was lost.
  ///         ec::unreachable: a process has not responded for too long.
  ///         ec::protocol: processes asked for different steps, or a peer
  ///         violated the protocol.
  ///         ec::invalid: a step function threw; the text is the exception's.
  ///         ec::cancelled: the group's chief has terminated.
  ///         If the step function ran on the caller's thread, its exception is
  ///         passed through unchanged. If `on_commit` throws, the run ends as
  ///         after `stop`, and then `run` throws that exception.
  ///
  /// After `run` has thrown, no replica enters the step function. Before `run`
  /// throws, it waits for the replicas inside that function: at most twice the
  /// step timeout, or 1 s if that is longer. The error names each replica that
  /// is still inside. If it names a replica, the caller must keep the objects
  /// that the function refers to until that replica returns or the process
  /// ends. The group keeps the function object itself in any case.
  virtual std::uint64_t run(const run_request& request) = 0;

  /// Ends the active run after the steps that are already granted, at the same
  /// step in all processes. May be called from `on_commit` and from any thread.
  /// No effect if no run is active.
  virtual void stop() = 0;

  /// Calls `fn` once for each replica of this process, outside any step, and
  /// waits for all calls. Each call is made on the replica's thread, with the
  /// replica's context as the current one. Use it to set up state that belongs
  /// to a thread.
  /// @errors throws `job_error` that names a replica. After that `fn` is not
  ///         called again. The error also names each replica that is still
  ///         inside `fn`. The caller must then keep the objects that `fn`
  ///         refers to, as described at `run`.
  virtual void for_each(const std::function<void(std::uint32_t)>& fn) = 0;

  /// Makes the replicas of this process anew, after `run` has thrown because a
  /// process was lost or joins. Waits until the processes have agreed on the
  /// next view of the job, which places all replicas on its members. All
  /// members must make this call. Then `replica_placement` is the placement of
  /// the view, and the group runs steps again. With `is_joining`, the next view
  /// is the first one to which this process belongs.
  /// @param position how far this process has come. Steps before it stay done;
  ///                 no later step has changed anything. None: it has joined
  ///                 and does not have the state of the job yet.
  /// @param timeout  longest time that a process may take to make this call,
  ///                 because it saves a file or is in a callback.
  /// @returns false if there is no next view: the group cannot change its
  ///          view, too few processes are left, or no process was lost.
  ///          Afterwards the group runs no steps.
  /// @errors throws `job_error` if this process does not belong to the next
  ///         view.
  virtual bool
  enter_next_view(const std::optional<view_change::job_position>& position,
                  std::chrono::milliseconds timeout) {
    (void)position, (void)timeout;
    return false;
  }

  /// What `let_leave` has done.
  enum class leave_result : std::uint8_t {
    unchanged, ///< No process that wants to leave belongs to the view.
    entered,   ///< The processes have entered the next view.
    left,      ///< This process has left its job. The group runs no steps.
  };

  /// Number by which processes name this one in `let_leave`. Zero: the view of
  /// the job cannot change.
  virtual std::uint64_t incarnation() const { return 0; }

  /// Returns the members of the view of which this group has replicas, by
  /// `incarnation`. Empty: the view of the job cannot change.
  virtual std::vector<std::uint64_t> members() const { return {}; }

  /// Returns the id of the view of which this group has, or last had, replicas.
  /// Zero: the view of the job cannot change.
  virtual std::uint64_t view_id() const { return 0; }

  /// Lets processes leave the job, between two runs: the next view places their
  /// replicas on the others, as `enter_next_view` says. All processes of the
  /// view make the same call. A process that wants to leave remains if no other
  /// process with replicas would stay. It also remains if the view changes for
  /// another reason meanwhile.
  /// @param leavers the processes that want to leave, by `incarnation`.
  /// @param position as in `enter_next_view`, equal in all processes.
  /// @errors throws `job_error` if there is no next view, or if this process is
  ///         excluded from it.
  virtual leave_result let_leave(const std::vector<std::uint64_t>& leavers,
                                 const view_change::job_position& position,
                                 std::chrono::milliseconds timeout) {
    (void)leavers, (void)position, (void)timeout;
    return leave_result::unchanged;
  }

  /// True if this process has left its job. If the others are faster than this
  /// process, the view may change before it has called `let_leave`. Then its
  /// run fails, and `enter_next_view` returns false.
  virtual bool has_left() const { return false; }

  /// True if the job goes on without this process, also if this process has
  /// left it.
  virtual bool is_excluded() const { return false; }

  /// True if this process has replicas in the last view of the job that it
  /// knows of. Another process may have their places already if this one has
  /// not heard of a later view.
  virtual bool belongs_to_job() const { return true; }

  /// Leaves the job at once. It goes on without this process, as after a loss.
  /// Ends the replicas of this process; later calls of `run` throw. No effect
  /// if the view of the job cannot change.
  virtual void leave_at_once() {}

  /// True if the processes of the job change their view, or have changed it,
  /// and wait until this one calls `enter_next_view`.
  virtual bool is_view_change_pending() { return false; }

  /// Sets a function that is called when `is_view_change_pending` becomes true
  /// while no replica of this process has stopped. It is called on a thread of
  /// an actor and must not block. No effect if the view cannot change.
  /// @param listener null: none.
  virtual void set_view_change_listener(std::function<void()> listener) {
    (void)listener;
  }

  /// True if this process does not belong to its job yet: it joins while the
  /// job runs. It hosts no replica, and calls of `run` fail.
  virtual bool is_joining() const { return false; }

  /// Records the result of a call of the job, for processes that join. No
  /// effect if it is known.
  /// @param call number of the call; the first one is 0.
  virtual void record_result(std::uint64_t call, const std::string& result) {
    (void)call, (void)result;
  }
  /// Returns the result of a call of the job. None: no process that can be
  /// reached has completed the call.
  /// @param call number of the call; the first one is 0.
  /// @errors throws `job_error` if the results are not known any more.
  virtual std::optional<std::string> result_of(std::uint64_t call) {
    (void)call;
    return {};
  }
  /// From now on, or no longer, no process can join at the position of this
  /// one. Those that ask meanwhile wait. No effect if no process can join.
  virtual void defer_candidates(bool deferred) { (void)deferred; }
  /// True if a process waits because this one defers it.
  virtual bool has_deferred_candidate() { return false; }
  /// Waits until a process waits because this one defers it, or a view change
  /// begins.
  /// @param timeout longest wait.
  /// @returns as `has_deferred_candidate`.
  virtual bool await_deferred_candidate(std::chrono::milliseconds timeout) {
    (void)timeout;
    return false;
  }
  /// Ends the deferral, and waits until a view change begins or no process that
  /// was deferred waits any more. If a view change has begun, the next `run`
  /// fails. A process that is not admitted within some seconds counts as one
  /// that does not wait.
  /// @param timeout longest wait of this call.
  virtual void admit_candidates(std::chrono::milliseconds timeout) {
    (void)timeout;
  }
  /// From now on no process can join the job.
  /// @param reason for the processes that ask.
  virtual void reject_candidates(const std::string& reason) { (void)reason; }

  /// Returns a function that ends the active run, and each later one, with an
  /// error. Any thread may call it, also after the group is destroyed. Null:
  /// the group's runs cannot be ended from outside.
  virtual std::function<void(const failure_report&)> run_terminator() {
    return {};
  }

  /// Returns an object that tells the status of the group's active run
  /// (job_status_source.hpp). Any thread may use it, also after the group is
  /// destroyed. Null: the group does not tell its status.
  virtual std::shared_ptr<job_status_source> status_source() const;
};

/// Makes a group that runs all replicas in turn on the caller's thread, without
/// actors. If there is one replica, each step is a plain function call.
std::unique_ptr<replica_group>
make_sequential_group(const replica_group_options& options);

} // namespace troupe
