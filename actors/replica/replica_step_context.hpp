#pragma once

#include "troupe/actors/replica/replica.hpp"

#include <caf/actor_clock.hpp>

#include <optional>

namespace troupe {

/// Step context of a replica actor. While the step function waits, the actor
/// handles the messages of its mailbox. Only code on the fiber of the replica
/// uses it.
class replica_step_context final : public backend_step_context {
public:
  explicit replica_step_context(replica_state& state)
    : backend_step_context{state.backend}, state_{state} {}

private:
  void wait_for(const wait_condition& condition) override;
  void check_superseded() override;
  void on_update_begun() override { state_.update_begun = true; }

  /// Returns the deadline of a wait that begins now; nullopt if the collective
  /// options have no timeout.
  std::optional<caf::actor_clock::time_point> deadline() const;
  bool fail_if_expired(std::optional<caf::actor_clock::time_point> limit);
  void wake_at(caf::actor_clock::time_point time);
  void yield_to_mailbox();

  replica_state& state_;
};

} // namespace troupe
