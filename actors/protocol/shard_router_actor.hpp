#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/protocol/shard_messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

namespace troupe {

/// Makes this process the chief of a training with synchronous parts. The
/// router calls the functions on its thread, until its answer to this request.
/// They must not wait. An exception of one of them ends the chief.
struct lead_training {
  std::uint64_t training = 0;       ///< Number.
  std::uint32_t replicas = 1;       ///< Of the training.
  std::uint32_t backup_workers = 0; ///< Lowest one of the synchronous parts.
  /// Number of the chief, above 0. The coordinator counts the chiefs of a
  /// training, also in its later lives.
  std::uint64_t chief = 1;
  /// Returns how the sum of the contributions of some replicas to a step is
  /// applied.
  std::function<parameter_server::update_factors(
    std::uint64_t step, const std::vector<std::uint32_t>& contributors)>
    factors{};
  /// All shards have the decisions on so many steps. The first number of a
  /// later chief can be below the last one of the chief before. Empty: no
  /// effect.
  std::function<void(std::uint64_t steps)> on_decided{};
};

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
  // Begins a training at a shard.
  caf::replies_to<std::uint32_t, new_training,
                  parameter_server::training>::with<std::uint64_t>,
  // Answers when the shard has acknowledged the push: `accepted`, or `decided`.
  // Errors of pushes and pulls: `ec::superseded`, if a later training has
  // begun, and `ec::cancelled`, if the replica was released.
  caf::replies_to<replica_push, tensors>::with<parameter_server::push_result>,
  // Answers when the replica may read the parts, with their values. A replica
  // has one pull at each shard; a new one ends the one before.
  caf::replies_to<replica_pull, tensors>::with<parameter_server::pulled,
                                               tensors>,
  // Ends the requests of a replica of a training, unless a later execution has
  // asked for the replica.
  caf::reacts_to<atom::release, std::uint64_t, std::uint32_t,
                 coordinator::execution>,
  // This process decides the steps of a training from now on. Answers with the
  // number of steps that are decided, when it was stopped. Errors:
  // `ec::superseded`, if a later chief has asked a shard; `ec::invalid`, if a
  // shard rejects the decision.
  caf::replies_to<lead_training>::with<std::uint64_t>,
  // Stops the chief of a training.
  caf::reacts_to<atom::stop, std::uint64_t>,
  // To the chief: a replica has contributed to the steps below a number. The
  // router keeps it for a later chief.
  caf::reacts_to<parameter_server::contributed>,
  // The copies have changed.
  caf::reacts_to<copy_table>>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::lead_training)
