#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Spawn arguments of a closure link.
struct closure_link_config {
  std::uint64_t id = 0;     ///< Of `new_worker`.
  std::uint32_t number = 0; ///< Of the worker, for errors.
  std::string address;      ///< Of the node, for errors.
  closure_worker_owner_actor owner;
  remote_closure_worker_actor worker;
  std::chrono::milliseconds timeout{}; ///< Of an execution.
};

/// Stands for a worker on a node. It requests the executions from the node, and
/// tells the scheduler what becomes of them. It ends when the worker is lost.
closure_worker_actor::behavior_type
closure_link(closure_worker_actor::pointer self,
             const closure_link_config& config);

} // namespace troupe
