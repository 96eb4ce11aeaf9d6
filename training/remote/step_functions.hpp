#pragma once

#include "troupe/training/strategies/strategy.hpp"

#include <functional>
#include <map>
#include <string>

namespace troupe {

class runtime;

/// What a node's replicas can be told to do, by name. The functions may share
/// what their factory made: a model, an optimizer, a dataset.
struct step_functions {
  /// Called for each replica, as by `strategy::run`, with what the client gives
  /// that replica.
  using for_replica = std::function<tensors(replica_context&, const tensors&)>;
  /// Called once on each node, in the strategy's scope, with what the client
  /// gives to all: `fit`, `evaluate`, `save`.
  using for_worker = std::function<tensors(const tensors&)>;

  std::map<std::string, for_replica> run{};
  std::map<std::string, for_worker> call{};
};

/// Makes the functions of one worker, in the scope of its strategy, which is
/// one over all nodes of the client.
/// @param argument whatever the client says.
using steps_factory = std::function<step_functions(
  const strategy& on, const std::string& argument)>;

/// Lets clients (remote_strategy.hpp) train on nodes of this runtime: they give
/// the name, and find what the factory makes. It is called for each client
/// anew, on a thread of its worker's own.
/// @pre the runtime outlives its nodes.
/// @errors throws std::logic_error if the name is taken, empty, longer than 58
///         or not printable.
void register_steps(runtime& in, const std::string& name, steps_factory make);

/// Functions that share nothing.
void register_steps(runtime& in, const std::string& name, step_functions all);

} // namespace troupe
