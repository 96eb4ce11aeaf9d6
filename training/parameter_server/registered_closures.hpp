#pragma once

#include "troupe/actors/node/client_options.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace troupe {

class runtime;

/// A closure that workers on nodes execute: it gets the inputs of
/// `schedule_named` and returns its results.
using registered_closure =
  std::function<tensors(closure_context&, const tensors&)>;
using registered_closures = std::map<std::string, registered_closure>;

/// Makes the closures of one worker. They may share what the factory makes,
/// such as a dataset.
/// @param servers the parameter servers of the coordinator. `variable` finds
///        the variables that the coordinator's program has made; a
///        `server_optimizer` is the one that this program has made in the same
///        place of the order, with the same rule.
/// @param worker number of the worker.
using closures_factory = std::function<registered_closures(
  const parameter_server_strategy& servers, std::uint32_t worker)>;

/// The same, with the `coordinator_options::arguments` of the coordinator. They
/// come from another process, so the factory has to check them.
using configured_closures_factory = std::function<registered_closures(
  const parameter_server_strategy& servers, std::uint32_t worker,
  const std::string& arguments)>;

/// Lets coordinators use a node of this runtime as a worker. The factory is
/// called once for each worker, when it joins.
/// @param to_servers options of the connections to the parameter servers.
/// @pre the runtime outlives its nodes.
/// @errors throws std::logic_error as `register_role` does for the role
///         "closures/" + name.
void register_closures(runtime& actors, const std::string& name,
                       closures_factory factory,
                       const client_options& to_servers = {.window = 4096});
void register_closures(runtime& actors, const std::string& name,
                       configured_closures_factory factory,
                       const client_options& to_servers = {.window = 4096});

} // namespace troupe
