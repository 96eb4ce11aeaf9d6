#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/net/session/channel.hpp"
#include "troupe/strategies/fields.hpp"

#include <caf/actor_addr.hpp>
#include <caf/allowed_unsafe_message_type.hpp>

#include <memory>
#include <string>
#include <tuple>

// A frame is bytes already: nothing else will ever serialize it.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::net::frame)

namespace troupe {

/// A link is no more. *Known to be dead* is peer_lost, *nobody knows* is
/// unreachable: only the first may be replaced without being fenced.
struct link_ended {
  ec code = ec::unreachable; ///< Or peer_lost, or protocol.
  std::string why;
  auto fields() { return std::tie(code, why); }
};

/// Brings what a link hears to an actor, which it does not keep alive: frames,
/// and `link_ended`.
std::shared_ptr<net::link_listener> mail_to(const caf::actor_addr& who);

} // namespace troupe
