#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace troupe {

/// How often the roles of a group are made again.
struct respawn_options {
  std::size_t max_respawns = 3; ///< Within `window`.
  std::chrono::milliseconds window{60'000};
  /// Clock of `window`.
  std::function<std::chrono::steady_clock::time_point()> now =
    std::chrono::steady_clock::now;
};

/// Supervises the roles of a group in a job of one process:
///
///   who     the owner of the group that has the roles
///   start   the actor of a replica, of a reducer or of the chief ends, or NCCL
///           fails between the devices of the replicas. `run` throws, as that
///           of the group does
///   next    the caller that can go on calls `enter_next_view`. All roles of
///           the group end, and are made again
///   limit   if roles have ended more often than `max_respawns` within
///           `window`, `enter_next_view` throws an error that lists these ends
///   faults  a replica that is still inside the step function: nothing is made
///           again. An exception of the step function is no end of a role
/// @param make makes the group with its roles. Called again for each respawn.
std::unique_ptr<replica_group>
make_respawning_group(std::function<std::unique_ptr<replica_group>()> make,
                      respawn_options options = {});

} // namespace troupe
