#pragma once

#include "troupe/actors/protocol/shard_router_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

namespace troupe {

/// The interface of a shard router, and its own messages.
using shard_router_internal_actor = shard_router_actor::extend<
  // A connection to a server.
  caf::reacts_to<host_link>,
  // Looks for requests to send again, and for deadlines.
  caf::reacts_to<atom::wake>>;

} // namespace troupe
