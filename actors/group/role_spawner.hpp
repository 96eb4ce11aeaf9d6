#pragma once

#include "troupe/actors/control/local_agent.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/replica/step_registry.hpp"

#include <vector>

namespace troupe {

/// The actors of a crew in this process.
struct crew_cast {
  front_actor front;                      ///< The chief, or a steward.
  std::vector<replica_actor> replicas;    ///< Of this process.
  std::vector<caf::actor> proxies, gates; ///< To and from other processes.
  std::vector<caf::actor_addr> roles;     ///< All others, the owner first.
};

/// Spawns them, and lets them know each other. The desk hears of their ends.
/// @param options nothing `automatic` is left in it.
crew_cast cast_crew(const crew_place& place, const crew_options& options,
                    const std::shared_ptr<work_desk>& desk,
                    const std::shared_ptr<const step_book>& book);

/// Which replicas of a crew are in this process.
crew::share share_of(const crew_place& place, const crew_options& options);

} // namespace troupe
