#include "troupe/actors/collectives/tensor_transport.hpp"

#include "troupe/actors/protocol/atoms.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

local_transport::local_transport(std::uint32_t replicas, bool via_mailbox)
  : via_mailbox_{via_mailbox}, endpoints_(replicas) {}

void local_transport::register_role(const role_id& role,
                                    const caf::actor& actor) {
  if (role.role == role_id::kind::replica) {
    endpoints_.at(role.id).address = actor.address();
  } else {
    if (reducers_.size() <= role.id)
      reducers_.resize(role.id + 1);
    reducers_[role.id] = actor.address();
  }
}

caf::actor local_transport::actor_of(const role_id& role) const {
  const auto& address = role.role == role_id::kind::replica
                          ? endpoints_[role.id].address
                          : reducers_[role.id];
  return caf::actor_cast<caf::actor>(address);
}

void local_transport::send_via_mailbox(const role_id& receiver,
                                       tensor_message&& message,
                                       std::chrono::nanoseconds delay) const {
  const auto actor = actor_of(receiver);
  if (!actor)
    return;
  const auto deliver = [&](auto&&... xs) {
    if (delay > std::chrono::nanoseconds{0})
      caf::delayed_anon_send(actor, delay, std::move(xs)...);
    else
      caf::anon_send(actor, std::move(xs)...);
  };
  if (message.kind == message_kind::contribution)
    deliver(tree::contribution{message.key}, std::move(message.data),
            std::move(message.output));
  else if (message.kind == message_kind::result)
    deliver(tree::reduced_slice{message.key}, std::move(message.data));
  else
    deliver(tree::gather_contribution{message.key}, std::move(message.data));
}

void local_transport::send(const role_id& receiver, tensor_message&& message) {
  if (via_mailbox_ || receiver.role != role_id::kind::replica)
    return send_via_mailbox(receiver, std::move(message), {});
  auto& endpoint = endpoints_[receiver.id];
  if (!endpoint.queue.push(std::move(message)))
    return send_via_mailbox(receiver, std::move(message),
                            {}); // the queue is full, a mailbox never is
  if (endpoint.queue.needs_wakeup())
    if (const auto actor = actor_of(receiver))
      caf::anon_send(actor, atom::wake_v);
}

void local_transport::send_after(const role_id& receiver,
                                 tensor_message&& message,
                                 std::chrono::nanoseconds delay) {
  send_via_mailbox(receiver, std::move(message), delay);
}

} // namespace troupe
