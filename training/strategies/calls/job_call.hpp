#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Calls that go on when processes of the job are lost or join.

namespace troupe {

/// Where the process of a worker is in a call, as it tells the others after a
/// process was lost.
struct call_report {
  std::uint64_t steps = 0; ///< As `job_call::steps`.
  std::string text;        ///< As `job_call::report`.
};

/// A call that all processes of a job make, such as an epoch of `fit`.
struct job_call {
  /// Name of the call for texts, such as "evaluate". It says which function of
  /// the program's interface is called, and in parentheses which part of it if
  /// it makes several calls. All processes give the same name.
  std::string name{};
  /// Text of the exception that a callback of the program has thrown in this
  /// process before the call. If the other processes make another call, they
  /// throw an error with this text. Empty: none.
  std::string failure{};
  /// Makes the call among the processes of the current view, or what is left of
  /// it.
  /// @returns its result, which is equal in all processes.
  std::function<std::string()> run;
  /// Completes the call in this process by the result of another process. No
  /// other process takes part in the call any more. A process that joins
  /// completes in this way all calls that the job has made before.
  std::function<void(const std::string& result)> complete;
  /// Number of steps of the call that have changed the state of this process.
  /// Null: the call changes no state.
  std::function<std::uint64_t()> steps{};
  /// What other processes need to know of these steps. Null: nothing.
  std::function<std::string()> report{};
  /// Prepares the next `run` after the view has changed. If this process had
  /// fewer steps than another one, or lacked the state, the state of the
  /// process with the most steps has been copied. All processes of the view
  /// call it. Null: there is nothing to prepare.
  /// @param latest report of the process with the most steps.
  std::function<void(const call_report& latest)> resume{};
  /// Called in a process that joins before it asks to join, when no member has
  /// completed the call. It may copy some of the state while the members go on.
  /// Null: nothing is copied before.
  /// @returns true if the call may have been completed meanwhile.
  std::function<bool()> prepare{};
  /// After `prepare`, in the view which this process has joined: returns the
  /// observer whose tensors have the state of this report already. Null: all
  /// tensors must be copied.
  /// @param latest report of the process with the most steps.
  std::function<const placement_observer*(const call_report& latest)>
    copied_ahead{};
};

/// True if a process that joins copies the state of the models while the
/// members go on: the state is large enough, and the process can.
bool copies_ahead(const strategy_state& state);

/// Checks that a call can begin.
/// @param call name of the call, in the error text.
/// @errors throws std::logic_error if another call or a run is active, as in
///         `callback::on_step`, and in a replica's function.
void check_idle(const strategy_state& state, const std::string& call);

/// Makes a call together with the other processes of the job. If a process is
/// lost, the others enter the next view, in which they host its replicas, and
/// go on with the call:
///
///   count    each process counts its calls. When one process has completed a
///            call, all others have done all steps of the call; they may lack
///            its result
///   on loss  `run` throws. Enter the next view with the position (call, steps)
///   on join  the same in all members. The process that joins completes all
///            calls of which a member knows the result; it enters the view in
///            the next call, before which it calls `prepare`
///   then     the processes of the view gather their positions and reports.
///            Those that are a call behind complete it by the result of a
///            process that has completed it. This is repeated until all are in
///            the same call. Then the state is copied to those that lack some
///            of it, and all `resume` and `run`
///   fault    all processes that have completed a call are lost before the
///            others have their state: the others make the call again. A
///            process that joins and knows the result already leaves the job
///            processes make different calls: the run of each of them fails
///            before its first step. The error names two processes and their
///            calls
/// @errors throws the error of `run` if there is no next view, and job_error
///         (ec::cancelled) in a process that leaves the job as above. Throws
///         std::logic_error as `check_idle`.
void make_call(const std::shared_ptr<strategy_state>& state,
               const job_call& call);

/// Takes part in a view change while this process makes no call. Enters the
/// next view, and gathers positions until all processes of the view are in the
/// same call. No effect if no view change is pending. A process in a call waits
/// for processes in none. So the latter call this function soon after the
/// listener of the group was called, and after each call.
/// @pre no call is active.
/// @errors throws `job_error` if there is no next view.
void enter_pending_view(const std::shared_ptr<strategy_state>& state);

/// Lets processes leave the job between two calls, when all processes have made
/// the same steps: nothing is redone. All processes of the view call it with
/// the same processes. A process that joins and was no member then calls it in
/// vain.
/// @param leavers processes by `replica_group::incarnation`.
/// @returns true if this process has left its job.
/// @errors throws `job_error` as `replica_group::let_leave`.
bool let_leave(const std::shared_ptr<strategy_state>& state,
               const std::vector<std::uint64_t>& leavers);

/// True if the processes of the job have made different calls.
bool is_call_mismatch(const job_error& error);

/// Tells the launcher that this process has left its job. No effect if it has
/// no launcher.
void report_leave(const strategy_state& state);

} // namespace troupe
