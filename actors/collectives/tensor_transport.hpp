#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"
#include "troupe/actors/collectives/tensor_queue.hpp"

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>

#include <chrono>
#include <deque>
#include <vector>

namespace troupe {

/// Delivers tensor messages to replicas and reducers.
class tensor_transport {
public:
  virtual ~tensor_transport() = default;

  /// Delivers a message. Never blocks. A message that cannot be delivered is
  /// lost; a receiver that waits for it has a timeout.
  virtual void send(const role_id& receiver, tensor_message&& message) = 0;
  /// Delivers a message after a delay. Never blocks.
  virtual void send_after(const role_id& receiver, tensor_message&& message,
                          std::chrono::nanoseconds delay) = 0;
};

/// Delivers tensor messages inside a process, with tensors by reference: to a
/// replica through its tensor queue, to a reducer through its mailbox.
class local_transport final : public tensor_transport {
public:
  /// @param via_mailbox messages to replicas go through their mailboxes, too.
  ///                    Tests of message schedules need this.
  local_transport(std::uint32_t replicas, bool via_mailbox);

  /// Registers the actor of a replica or reducer. @pre no message was sent yet.
  void register_role(const role_id& role, const caf::actor& actor);

  /// @returns the queue of a replica.
  tensor_queue& queue_of(std::uint32_t replica) {
    return endpoints_[replica].queue;
  }
  bool via_mailbox() const { return via_mailbox_; }

  void send(const role_id& receiver, tensor_message&& message) override;
  void send_after(const role_id& receiver, tensor_message&& message,
                  std::chrono::nanoseconds delay) override;

private:
  struct replica_endpoint {
    tensor_queue queue;
    caf::actor_addr address; ///< Weak, so that a terminated actor is released.
  };
  caf::actor actor_of(const role_id& role) const;
  void send_via_mailbox(const role_id& receiver, tensor_message&& message,
                        std::chrono::nanoseconds delay) const;

  bool via_mailbox_;
  std::deque<replica_endpoint> endpoints_;
  std::vector<caf::actor_addr> reducers_;
};

} // namespace troupe
