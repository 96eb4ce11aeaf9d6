#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"

#include <caf/typed_event_based_actor.hpp>

namespace troupe {

/// The interface of a shard host, and its own messages.
using shard_host_internal_actor = shard_host_actor::extend<
  // A connection to another process.
  caf::reacts_to<host_link>,
  // An interval has passed.
  caf::reacts_to<atom::wake>>;

} // namespace troupe
