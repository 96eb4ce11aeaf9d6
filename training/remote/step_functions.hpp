#pragma once

#include "troupe/training/strategies/strategy.hpp"

#include <functional>
#include <map>
#include <string>

namespace troupe {

class runtime;

/// The functions that a node's replicas can run, by name. They may share state
/// that their factory made: a model, an optimizer, a dataset.
struct step_functions {
  /// Called for each replica, as by `strategy::run`, with the client's tensors
  /// for that replica.
  using for_replica = std::function<tensors(replica_context&, const tensors&)>;
  /// Called once on each node, in the strategy's scope, with the client's
  /// tensors: for `fit`, `evaluate`, `save`.
  using for_worker = std::function<tensors(const tensors&)>;

  std::map<std::string, for_replica> run{};
  std::map<std::string, for_worker> call{};
};

/// Makes the functions of one worker, in the scope of its strategy. That
/// strategy covers all nodes of the client.
/// @param argument passed by the client.
using steps_factory = std::function<step_functions(
  const strategy& on, const std::string& argument)>;

/// Allows clients (remote_strategy.hpp) to train on nodes of this runtime with
/// the functions registered under this name. The factory is called once per
/// client, on a thread of that client's worker.
/// @pre the runtime outlives its nodes.
/// @errors throws std::logic_error if the name is registered already, is empty,
///         is longer than 58 characters or is not printable.
void register_steps(runtime& local_runtime, const std::string& name,
                    steps_factory factory);

/// Registers functions that share no state.
void register_steps(runtime& local_runtime, const std::string& name,
                    step_functions functions);

} // namespace troupe
