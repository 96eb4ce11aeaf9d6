#pragma once

#include "troupe/actors/control/local_agent.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/replica/step_registry.hpp"

#include <vector>

namespace troupe {

/// The actors of a group in this process.
struct crew_cast {
  front_actor front;                   ///< The chief or the local agent.
  std::vector<replica_actor> replicas; ///< Replicas of this process.
  /// Proxies of roles in other processes, and skeletons of local roles.
  std::vector<caf::actor> proxies, gates;
  /// All roles of this process; the chief or the local agent is the first.
  std::vector<caf::actor_addr> roles;
};

/// Spawns the roles of this process and connects them. `completions` is
/// notified when one of them terminates.
/// @param options must not contain automatic values.
crew_cast cast_crew(const crew_place& place, const crew_options& options,
                    const std::shared_ptr<work_desk>& desk,
                    const std::shared_ptr<const step_book>& book);

/// The replicas of the group that are in this process.
crew::share share_of(const crew_place& place, const crew_options& options);

} // namespace troupe
