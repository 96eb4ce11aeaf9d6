#pragma once

#include "troupe/training/strategies/strategy.hpp"

#include <functional>
#include <map>
#include <string>

namespace troupe {

class runtime;

/// The functions of a worker that a client can call, by name. The functions may
/// share state that their factory made, such as a model, an optimizer or a
/// dataset.
struct step_functions {
  /// Called once for each replica, in replica context. The tensors are the
  /// client's inputs for that replica.
  using for_replica = std::function<tensors(replica_context&, const tensors&)>;
  /// Called once on each node, in the strategy's scope, with the client's
  /// tensors. Such a function can call `fit`, `evaluate` and `save`.
  using for_worker = std::function<tensors(const tensors&)>;

  /// A name is in one of these two. Otherwise the nodes refuse the client.
  std::map<std::string, for_replica> run{};
  std::map<std::string, for_worker> call{};

  /// Returns the state that the functions share and that is equal on all nodes.
  /// It does not include models, optimizers and distributed datasets of the
  /// factory, which the library knows. Null: there is no such state.
  ///
  /// `snapshot` is called before each call of a function in `run`. It is also
  /// called when state is copied to a node that was added, or that has missed
  /// the end of a step. A node that was added calls it too, before `restore`.
  /// At most 1 GiB.
  std::function<tensors()> snapshot{};
  /// Returns to a state that `snapshot` has returned, also on another node. It
  /// is called if a step is made again after a loss. Set it together with
  /// `snapshot`.
  std::function<void(const tensors&)> restore{};
};

/// Makes the functions of one worker. The caller has opened the scope of `on`,
/// which is the strategy over all nodes of the client. All nodes must make the
/// same models and optimizers in the same order. A node that the client adds
/// later gets their state after the factory has returned.
/// @param argument the client's `remote_strategy_options::argument`.
using steps_factory = std::function<step_functions(
  const strategy& on, const std::string& argument)>;

/// Registers step functions under a name, so that clients (remote_strategy.hpp)
/// can train with them on nodes of this runtime. Each worker of a client calls
/// the factory once, on the worker's thread.
/// @pre the runtime outlives its nodes.
/// @errors throws std::logic_error if the name is registered already, is empty,
///         is longer than 58 characters or is not printable. With the prefix
///         "steps/" it becomes a role name of at most 64 characters.
void register_steps(runtime& local_runtime, const std::string& name,
                    steps_factory factory);

/// Registers step functions that need no factory, because they share no state
/// with each other. Each worker uses a copy of `functions`.
void register_steps(runtime& local_runtime, const std::string& name,
                    step_functions functions);

} // namespace troupe
