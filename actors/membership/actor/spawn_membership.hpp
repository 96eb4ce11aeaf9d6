#pragma once

#include "troupe/actors/membership/peers/membership_options.hpp"
#include "troupe/actors/protocol/membership_actor.hpp"

#include <caf/actor_system.hpp>

namespace troupe {

/// Spawns the membership actor of a process. It begins at once: a participant
/// dials the leader. It terminates when it is sent an exit message.
membership_actor spawn_membership(caf::actor_system& system,
                                  const membership_options& options);

} // namespace troupe
