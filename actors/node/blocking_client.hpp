#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/scoped_actor.hpp>

#include <optional>

// How threads that are no actors find other processes and ask actors.

namespace troupe {

/// One that only dials.
std::unique_ptr<net::endpoint> endpoint_for(const remote_options& options);

/// Dials and waits.
/// @errors throws `failure` (refused, peer_lost or unreachable) that names the
///         address, std::invalid_argument for one that is none.
std::shared_ptr<net::connection> call(net::endpoint& from,
                                      const std::string& where,
                                      const net::hello& who,
                                      std::chrono::milliseconds patience);

/// Asks an actor and waits. @param what "node a:1: spawning \"x\"", for people.
/// @errors throws `failure` with the error's code.
template <class T, class Handle, class... Ts>
T ask(caf::actor_system& in, const std::string& what, const Handle& whom,
      std::chrono::milliseconds patience, const Ts&... xs) {
  // A proxy says itself that it is late, and why.
  constexpr std::chrono::milliseconds slack{500};
  std::optional<T> got;
  caf::error why;
  {
    caf::scoped_actor self{in};
    self->request(whom, patience + slack, xs...)
      .receive([&](T& x) { got = std::move(x); },
               [&](caf::error& e) { why = std::move(e); });
  }
  forget_logger();
  if (got)
    return std::move(*got);
  const auto note = wire::note_of(why, in);
  throw failure{note.code, what + ": " + note.text};
}

} // namespace troupe
