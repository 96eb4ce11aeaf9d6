#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/strategies/placement.hpp"

#include <cstdint>
#include <functional>
#include <memory>

// The interface of a job's replicas for code above the actors. This header does
// not depend on CAF.

namespace troupe {

/// The replicas of a job, ready to run steps. If the job has several processes,
/// each of them has a group. All processes call `run` with the same steps in
/// the same order, and each `on_commit` gets the commits of the whole job.
class replica_group {
public:
  virtual ~replica_group() = default;

  /// The replicas of the job and this process among its processes. Step
  /// functions and functions given to `for_each` are called only for the
  /// replicas of this process, with their ids in the job.
  virtual const local_placement& replica_placement() const = 0;

  /// Number of replicas of the whole job.
  std::uint32_t replicas() const { return replica_placement().job.replicas(); }

  /// Maximum number of steps that a replica is ahead of the last commit, and of
  /// commits that wait for `on_commit`. After `stop`, replicas therefore run at
  /// most 2 * max_steps_ahead() steps beyond the last one whose `on_commit` has
  /// returned.
  virtual std::uint64_t max_steps_ahead() const { return default_step_window; }

  /// Runs the requested steps, or the steps before the one at which `stop`
  /// ended the run.
  /// @returns the first step that was not run; all before it are committed.
  /// @errors throws `job_error`.
  ///         ec::stalled: the text names role, operation, step and the missing
  ///         replicas, or the processes that did not join the run.
  ///         ec::peer_lost: a replica or a process was lost.
  ///         ec::unreachable: a process has not responded for too long.
  ///         ec::protocol: processes asked for different steps.
  ///         ec::invalid: a step function threw; the text is the exception's.
  ///         ec::cancelled: the group's chief has terminated.
  ///         An exception of a step function that ran on the caller's thread
  ///         is passed through unchanged. If `on_commit` throws, the run ends
  ///         as by `stop`, and then its exception is passed through.
  ///
  /// After `run` has thrown, no replica enters the step function. Before it
  /// throws, it waits for replicas inside that function, for up to twice the
  /// step timeout and at least 1 s. The error names each replica that is still
  /// inside. Only then must the caller keep the objects that the function
  /// refers to, until that replica returns or the process ends. The function
  /// object itself is kept in any case.
  virtual std::uint64_t run(const run_request& request) = 0;

  /// Ends `run` after the steps that were granted already, at the same step in
  /// all processes. It may be called from `on_commit` and from any thread. No
  /// effect if no run is active.
  virtual void stop() = 0;

  /// Calls `fn` once for each replica of this process, outside any step, on the
  /// replica's thread and in its context, and waits for all calls. It serves to
  /// set up state that a thread owns.
  /// @errors throws `job_error` that names a replica; then `fn` is not called
  ///         again, and replicas still inside `fn` are named as by `run`.
  virtual void for_each(const std::function<void(std::uint32_t)>& fn) = 0;
};

/// Makes a group that runs all replicas in turn on the caller's thread, without
/// actors. With one replica a step costs a function call.
std::unique_ptr<replica_group>
make_sequential_group(const replica_group_options& options);

} // namespace troupe
