#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/tensors/tensor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe {

class cluster;
class flight_recorder;
class replica_context;
class state_source;

/// An object whose state all processes of a job have, and whose form depends on
/// the placement of the replicas.
class placement_observer {
public:
  virtual ~placement_observer() = default;
  /// The replicas of this process have changed. No step runs.
  virtual void on_new_placement() = 0;
  /// A step begins that may fail. Keeps the state for `restore_state`.
  virtual void keep_state() {}
  /// Returns to the state of the last `keep_state`. No step runs.
  virtual void restore_state() {}
  /// Returns the part of the state that is not in tensors. It also says which
  /// tensors there are, if that depends on what the program has done.
  virtual std::string state_text() { return {}; }
  /// Returns the tensors that a process which lacks the state takes from one
  /// that has it. They have the same types and shapes in all processes.
  /// @param text `state_text` of the process that has the state.
  virtual std::vector<tensor> state_tensors(const std::string& text) = 0;
  /// Describes what must be equal in all processes of the job, one "name:
  /// value" a line. Empty: nothing.
  virtual std::string description() const { return {}; }
  /// Returns the description if the next step of a loop has to compare it
  /// (loop_call.hpp). Empty: it need not.
  virtual std::string unchecked_description() const { return {}; }
  /// A step has found `unchecked_description` equal in all processes.
  virtual void on_checked() {}
  /// The state of another process has been copied into these tensors.
  /// @param text `state_text` of that process.
  virtual void on_copied(const std::string& text) = 0;
};

/// Variable that a model of a strategy has.
struct known_variable {
  std::uint32_t id = 0; ///< `variable::id`.
  shape dims;
};

/// For which steps of a fit the program in the process of the chief has
/// processed the callbacks, as far as a process knows.
struct callback_progress {
  /// `strategy_state::all_calls` before the call (job_call.hpp) that runs the
  /// steps. It is equal in all processes that make this call. If a fit makes
  /// steps again, it does so in a later call.
  std::uint64_t call = 0;
  std::uint64_t end = 0; ///< All steps before this one are processed.

  friend auto operator<=>(const callback_progress&,
                          const callback_progress&) = default;
};

/// State that all handles of a strategy share.
struct strategy_state {
  std::string name;
  bool is_default = false;
  std::vector<device> devices;
  std::uint32_t replicas = 1; ///< Replicas of the job.
  /// Number of copies of the parameters that a model has in this process. If it
  /// is 1, all replicas of this process share the copy.
  std::uint32_t copies = 1;
  int threads = 1;
  std::size_t bytes_per_pack = 0; ///< `communication_options::bytes_per_pack`.
  std::string transport = "none"; ///< Transport of tensors to other workers.
  /// The cluster that `group` runs on. Null: a job of one process.
  std::shared_ptr<const troupe::cluster> cluster;
  /// Gives the state to processes that join, while the replicas go on. Null: it
  /// is copied when they have joined.
  std::shared_ptr<state_source> source;
  /// A process that joins copies the state of a model before it asks to join if
  /// that takes at least this number of bytes.
  std::size_t copy_ahead_bytes = std::size_t{32} << 20;
  std::unique_ptr<replica_group> group;
  /// Has the last events of this process. Null: none are recorded.
  std::shared_ptr<flight_recorder> recorder;
  /// Connection to the launcher of the job's processes. None: there is none.
  std::optional<net::launcher_link> launcher;
  /// The job has had no process but this one, and cannot get another one. Then
  /// its replicas share one copy of the parameters, unless they have several
  /// devices.
  bool is_one_process = true;
  /// Placement of the replicas of `group`.
  local_placement placement;

  /// Maximum wait for another worker to call `fit`, `evaluate` or `save`, or to
  /// finish a save or a callback. Zero: the step timeout of the group.
  std::chrono::milliseconds callback_timeout{0};

  /// True while a run is active. Any thread may run a strategy, but only one
  /// run at a time is allowed.
  std::atomic<bool> running{false};
  /// Number of the next step of `run_one_step`.
  std::uint64_t next_step = 0;
  /// Number of later views of the job that this process has entered. In a job
  /// of one process, how often its roles were made again.
  std::uint64_t views = 0;
  /// Called when this process has entered a view, in the order in which the
  /// program has made them.
  std::vector<std::weak_ptr<placement_observer>> observers;
  /// In a job of several processes: variables of all models that the program
  /// has made, in that order. So a variable has the same index in all
  /// processes.
  std::vector<known_variable> variables;
  /// This process has entered a view whose members do not know yet that they
  /// are at one position.
  bool must_catch_up = false;
  /// This process joins a running job, and does not have its state yet.
  bool lacks_state = false;
  /// State of the model whose fit calls `callback::on_step` at present. Null:
  /// none does.
  std::atomic<const void*> step_callback_of{nullptr};
  /// The thread in which it does.
  std::atomic<std::thread::id> step_callback_thread{};
  /// A call (job_call.hpp) is made. Runs outside of calls are not repeated.
  std::atomic<bool> in_call{false};
  /// The call for which runs are requested. Its name is empty outside of calls.
  requesting_call current_call;
  /// Number of completed calls (job_call.hpp), and the result of the last one.
  /// A loop (training_loop.hpp) is one call. All calls that a client decides on
  /// (client_calls.hpp) are in a loop.
  std::uint64_t calls = 0;
  std::string last_result;
  /// Progress of the callbacks in the last run of a fit. After a view change
  /// each process tells it to the others.
  callback_progress processed_callbacks;
  /// Id of the job, which its processes derive from their first view. Zero: it
  /// has one process, or its view cannot change.
  std::uint64_t job_id = 0;
  /// The program is in a loop, in which it can make further calls.
  bool in_loop = false;
  /// Number of the loop's iteration that the program is in, or was in last.
  /// None: it is in no loop, or no iteration has begun.
  std::optional<std::uint64_t> iteration;
  /// A client decides which calls are made (client_calls.hpp).
  bool has_client = false;
  /// Number of completed calls that were made in loops.
  std::uint64_t loop_calls = 0;
  /// When the last run failed, a replica of this process was still inside its
  /// step function.
  bool has_stuck_replica = false;

  /// Number of completed calls, also of those in loops. It is equal in all
  /// processes that are at one position.
  std::uint64_t all_calls() const { return calls + loop_calls; }

  /// True if a process that joins lacks calls of the program, because it joins
  /// between two of them and does not repeat them.
  bool are_calls_copied() const { return in_loop || has_client; }

  /// Device of the tensors of a replica of this process. If there are more
  /// replicas than devices, they take the devices in turn.
  /// @param index of the replica in this process.
  device device_of(std::size_t index) const {
    const auto on =
      devices.empty() ? device{} : devices[index % devices.size()];
    return on.kind == device_kind::cpu ? device{} : on;
  }
  /// Devices of the tensors of this process, which its replicas take in turn.
  /// At least one.
  std::vector<device> tensor_devices() const {
    std::vector<device> all;
    for (std::size_t i = 0; i < std::max<std::size_t>(devices.size(), 1); ++i)
      all.push_back(device_of(i));
    return all;
  }
  /// Device of the first copy of the parameters, on which `predict` computes.
  device tensor_device() const { return device_of(0); }
  /// True: replicas of this process have tensors on different devices, so they
  /// cannot share a copy of the parameters.
  bool has_several_devices() const {
    const auto is_other = [this](const device& x) {
      return x != devices.front();
    };
    return std::ranges::any_of(devices, is_other)
           && devices.front().kind != device_kind::cpu;
  }

  /// Name of this process in texts.
  std::string own_name() const {
    return group->process_name(placement.process);
  }

  /// True if the job has, or once had, other processes.
  bool spans_processes() const {
    return cluster || !is_one_process || placement.job.processes() > 1;
  }

  /// True if the replicas of the job have several copies of the parameters.
  bool has_copies() const { return spans_processes() || copies > 1; }

  void observe(std::weak_ptr<placement_observer> added) {
    std::erase_if(observers, [](const auto& x) { return x.expired(); });
    observers.push_back(std::move(added));
  }

  /// Number of calls of `strategy::run` that returned without an exception. The
  /// random numbers of the next call depend on this number.
  std::uint64_t runs = 0;
};

/// Strategy and replica of the running code. `context::execution_scope` points
/// to this object.
struct execution_scope {
  std::shared_ptr<strategy_state> strategy;
  replica_context* replica = nullptr; ///< Null: cross-replica context.
};

/// Returns the current execution scope. Null: no strategy is in scope.
const execution_scope* current_execution_scope();

/// Makes an execution scope current during its lifetime.
class execution_scope_guard {
public:
  explicit execution_scope_guard(const execution_scope& scope);
  ~execution_scope_guard();
  execution_scope_guard(const execution_scope_guard&) = delete;
  execution_scope_guard& operator=(const execution_scope_guard&) = delete;

private:
  const void* previous_;
};

} // namespace troupe
