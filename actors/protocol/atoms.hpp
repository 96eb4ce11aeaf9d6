#pragma once

// Atoms, and types that actors of one process pass to each other by reference.

#include "troupe/actors/core/local_message.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/strategies/failure_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/type_id.hpp>

namespace troupe {

/// A step function with its name. Only the name is sent to another process,
/// which finds the function in its step registry. A function without a name
/// cannot be sent to another process.
struct step_function_ref {
  std::shared_ptr<const step_function> function;
  std::string name;
};

/// Returns the report of a run that ends because the chief has terminated.
inline failure_report chief_terminated() {
  return {.kind = failure_kind::chief_terminated, .code = ec::cancelled};
}

/// Callbacks that the caller of a run implements. The roles call them on the
/// threads of the actors, so a callback must not block. The caller numbers its
/// runs from 1 and ignores callbacks of an older run.
class run_listener {
public:
  virtual ~run_listener() = default;
  /// Called once for each committed step of the run, in the order of the steps.
  virtual void on_committed(std::uint64_t run, commit_record&& record) = 0;
  /// The run is complete. @param next_step the first step that was not run.
  virtual void on_completed(std::uint64_t run, std::uint64_t next_step) = 0;
  /// The run was aborted or rejected.
  virtual void on_aborted(std::uint64_t run, failure_report&& report) = 0;
  /// The group has terminated. No other callback follows.
  virtual void on_group_terminated(const failure_report& report) = 0;
  /// A replica has finished a `replica_task`.
  /// @param task    number of the task.
  /// @param problem error text of the task. Empty: the task succeeded.
  virtual void on_task_done(std::uint64_t task, std::uint32_t replica,
                            std::string&& problem) = 0;
};

/// A function that a replica calls once, outside any step.
struct replica_task {
  std::shared_ptr<const std::function<void(std::uint32_t)>> function;
  std::shared_ptr<run_listener> listener;
  /// Number of the task. The caller increments it for each task.
  std::uint64_t number = 0;
};

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_atoms, caf::first_custom_type_id)

  CAF_ADD_ATOM(troupe_atoms, troupe::atom, missing, "missing")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, ended, "ended")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, flush, "flush")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, watchdog, "watchdog")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, next, "next")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, run, "run")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, spawn, "spawn")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, status, "status")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, stop, "stop")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, wake, "wake")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, info, "info")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, inputs, "inputs")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, results, "results")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, admit, "admit")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, vacant, "vacant")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, release, "release")
  CAF_ADD_ATOM(troupe_atoms, troupe::atom, resume, "resume")

CAF_END_TYPE_ID_BLOCK(troupe_atoms)

// A proxy has its own encoding for tensors and for the names of step functions.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::tensor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::step_function_ref)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::replica_task)
