#pragma once

#include "troupe/actors/protocol/node_actor.hpp"

// A role that a program registers for remote spawning.

namespace troupe::testing {

using counter_actor = caf::typed_actor<
  // Adds the number to the total, and returns the total.
  caf::replies_to<int>::with<int>,
  // Terminates with an error.
  caf::reacts_to<atom::next>,
  // Terminates normally.
  caf::reacts_to<atom::stop>>;

struct counter_state {
  static inline const char* name = "counter";
  int total = 0;
};

inline counter_actor::behavior_type
counter(counter_actor::stateful_pointer<counter_state> self, int first) {
  self->state.total = first;
  return {
    [self](int x) { return self->state.total += x; },
    [self](atom::next) {
      self->quit(caf::make_error(ec::invalid, std::string{"told to"}));
    },
    [self](atom::stop) { self->quit(); },
  };
}

/// A counter that ignores exit messages.
inline counter_actor::behavior_type
stubborn_counter(counter_actor::stateful_pointer<counter_state> self) {
  self->set_exit_handler([](caf::exit_msg&) {});
  return counter(self, 0);
}

} // namespace troupe::testing
