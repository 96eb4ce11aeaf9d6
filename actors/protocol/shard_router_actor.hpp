#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/protocol/shard_messages.hpp"

#include <caf/typed_actor.hpp>

#include <cstdint>

namespace troupe {

/// The messages that a shard router receives: requests to the shards of a job,
/// each with the index of its shard, and tables of their copies. An answer that
/// is a number is the number of changes that took place at the shard. Errors:
/// `ec::invalid`, if what the request names does not exist or does not fit, and
/// nothing has changed; `ec::stalled`, if no copy has answered before the
/// deadline or the request could not be sent; and `ec::peer_lost`, if the shard
/// is lost with all its copies, or has forgotten this client.
using shard_router_actor = caf::typed_actor<
  // Makes a part.
  caf::replies_to<std::uint32_t, new_part, tensor>::with<std::uint64_t>,
  // Makes an optimizer. No effect if there is the same already.
  caf::replies_to<std::uint32_t, new_optimizer>::with<std::uint64_t>,
  // Returns the value of a part, or some of its rows.
  caf::replies_to<std::uint32_t, part_pull, tensors>::with<tensor>,
  // Returns the state of an optimizer.
  caf::replies_to<std::uint32_t, optimizer_pull>::with<tensor>,
  // Makes changes at once.
  caf::replies_to<std::uint32_t, change_list, tensors>::with<std::uint64_t>,
  // Keeps the effects of an execution until the decision.
  caf::replies_to<std::uint32_t, execution_effects,
                  tensors>::with<std::uint64_t>,
  // The effects of an execution take place.
  caf::replies_to<std::uint32_t,
                  coordinator::decision>::with<coordinator::decided>,
  // Returns all parts.
  caf::replies_to<std::uint32_t, atom::info>::with<part_table>,
  // Returns what the shard holds.
  caf::replies_to<std::uint32_t, atom::status>::with<shard_status>,
  // Removes parts and optimizers. Effects of closures on them never take place.
  caf::replies_to<std::uint32_t, removal>::with<std::uint64_t>,
  // The copies have changed.
  caf::reacts_to<copy_table>>;

} // namespace troupe
