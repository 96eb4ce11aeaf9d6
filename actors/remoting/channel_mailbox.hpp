#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/local_message.hpp"
#include "troupe/actors/remoting/tensor_channel.hpp"
#include "troupe/net/session/channel.hpp"

#include <caf/actor_addr.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include <memory>
#include <string>
#include <tuple>

// A frame holds encoded bytes, so CAF never serializes it. The events of a lane
// stay in their process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::net::frame)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::arrived_tensors)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::lane_ended)

namespace troupe {

/// Tells an actor that its channel has closed. The code peer_lost means that
/// the peer is known to be dead and may be replaced without fencing. The code
/// unreachable means that the peer may still be alive.
struct channel_closed {
  ec code = ec::unreachable; ///< unreachable, peer_lost or protocol.
  std::string reason;
  auto fields() { return std::tie(code, reason); }
};

/// Makes a listener that sends each frame of a channel to the mailbox of an
/// actor, and `channel_closed` when the channel closes. The listener does not
/// keep the actor alive.
std::shared_ptr<net::channel_listener>
deliver_to_mailbox(const caf::actor_addr& receiver);

/// Makes a listener that sends each event of a tensor channel to the mailbox of
/// an actor. The listener does not keep the actor alive.
tensor_channel::listener
deliver_tensors_to_mailbox(const caf::actor_addr& receiver);

} // namespace troupe
