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

/// Delivers tensor messages inside a process and passes the tensors by
/// reference. Replicas receive them through tensor queues, reducers through
/// their mailboxes.
class local_transport final : public tensor_transport {
public:
  /// @param via_mailbox if true, replicas too receive messages through their
  ///                    mailboxes. Tests of the order of messages need this.
  local_transport(std::uint32_t replicas, bool via_mailbox);

  /// Registers the actor of a replica or reducer. @pre no message was sent yet.
  void register_role(const role_id& role, const caf::actor& actor);

  /// Returns the queue of a replica.
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
    caf::actor_addr address; ///< Weak reference to the actor.
  };
  caf::actor actor_of(const role_id& role) const;
  void send_via_mailbox(const role_id& receiver, tensor_message&& message,
                        std::chrono::nanoseconds delay) const;

  bool via_mailbox_;
  std::deque<replica_endpoint> endpoints_;
  std::vector<caf::actor_addr> reducers_;
};

} // namespace troupe
