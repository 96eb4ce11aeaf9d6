#pragma once

#include "troupe/actors/collectives/message_sender.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/strategies/tree/slice_reducers.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe {

// -- protocol -----------------------------------------------------------------

/// The interface of a reducer with its messages to itself.
using reducer_inside = reducer_actor::extend<
  // Adds some more elements.
  caf::reacts_to<atom::next>>;

// -- state --------------------------------------------------------------------

struct reducer_state {
  static inline const char* name = "reducer";

  explicit reducer_state(reducer_inside::pointer self) : self{self} {}

  void on_part(const tree::part& x, const tensor& data, const tensor& room);
  void on_probe(const commit::probe& x);
  void add_some();

  reducer_inside::pointer self;
  std::uint32_t id = 0, replicas = 1;
  outbox out;
  owner_actor owner;
  std::unique_ptr<tree::adders> sums;
  bool adding = false; ///< True while a `next` message to itself is pending.
};

// -- behavior -----------------------------------------------------------------

/// Reduces whole buckets. Each message to itself adds for less than a
/// millisecond, so that the reducer keeps reading its mailbox.
reducer_inside::behavior_type
reducer(reducer_inside::stateful_pointer<reducer_state> self, std::uint32_t id,
        std::uint32_t replicas, outbox out, owner_actor owner);

} // namespace troupe
