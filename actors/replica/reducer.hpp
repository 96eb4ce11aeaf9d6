#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/strategies/tree/slice_reducers.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// The interface of a reducer and its message to itself.
using reducer_internal_actor = reducer_actor::extend<
  // Adds the next portion of elements.
  caf::reacts_to<atom::next>>;

// -- state --------------------------------------------------------------------

struct reducer_state {
  static inline const char* name = "reducer";

  explicit reducer_state(reducer_internal_actor::pointer self) : self{self} {}

  void on_contribution(const tree::contribution& contribution,
                       const tensor& data, const tensor& output);
  void on_probe(const step_commit::probe& x);
  void reduce_some();

  reducer_internal_actor::pointer self;
  std::uint32_t id = 0, replicas = 1;
  message_sender sender;
  replica_owner_actor owner;
  std::unique_ptr<tree::slice_reducers> slices;
  /// True while a `next` message to itself is pending.
  bool next_pending = false;
};

// -- behavior -----------------------------------------------------------------

/// A reducer actor. In a job with reducer actors each bucket has one slice, so
/// the actor reduces whole buckets. It adds in portions that take less than
/// 1 ms, one for each `next` message to itself, and reads its mailbox between
/// them.
reducer_internal_actor::behavior_type
reducer(reducer_internal_actor::stateful_pointer<reducer_state> self,
        std::uint32_t id, std::uint32_t replicas, message_sender sender,
        replica_owner_actor owner);

} // namespace troupe
