#pragma once

#include "troupe/actors/control/local_agent.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/replica/step_registry.hpp"

#include <vector>

namespace troupe {

/// The actors of a group in this process.
struct spawned_roles {
  run_service_actor run_service;       ///< The chief or the local agent.
  std::vector<replica_actor> replicas; ///< Replicas of this process.
  /// Proxies of roles in other processes, and skeletons of local roles.
  std::vector<caf::actor> proxies, skeletons;
  /// All roles of this process; the chief or the local agent comes first.
  std::vector<caf::actor_addr> roles;
};

/// Spawns the roles of this process and connects them.
/// @param options     must not contain automatic values.
/// @param completions is notified when one of these roles terminates.
spawned_roles spawn_roles(const group_environment& environment,
                          const replica_group_options& options,
                          const std::shared_ptr<completion_queue>& completions,
                          const std::shared_ptr<const step_registry>& registry);

/// Returns the placement of the group's replicas.
local_placement placement_of(const group_environment& environment,
                             const replica_group_options& options);

} // namespace troupe
