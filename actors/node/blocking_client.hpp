#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/scoped_actor.hpp>

#include <optional>

// Blocking calls by which threads that are not actors connect to other
// processes and send requests to actors.

namespace troupe {

/// Makes an endpoint that connects only and does not listen.
/// @errors throws what `net::credentials_from_environment` throws, if the
///         options give no credentials.
std::unique_ptr<net::endpoint> endpoint_for(const remote_options& options);

/// Connects to a process and waits for the connection.
/// @errors throws `job_error` that names the address (refused, peer_lost,
///         unreachable, or protocol if the purpose carries no frames), and
///         std::invalid_argument for a malformed address.
std::shared_ptr<net::connection> call(net::endpoint& from,
                                      const std::string& where,
                                      const net::hello& who,
                                      std::chrono::milliseconds patience);

/// Sends a request to an actor and waits for the response.
/// @param operation begins the error text: "node a:1: spawning \"x\"".
/// @errors throws `job_error` with the code of the actor's error.
template <class T, class Handle, class... Ts>
T ask(caf::actor_system& in, const std::string& what, const Handle& whom,
      std::chrono::milliseconds patience, const Ts&... xs) {
  // A proxy reports its own timeout with a reason, so it gets more time.
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
