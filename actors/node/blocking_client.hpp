#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>

#include <optional>

// Blocking calls by which threads that are not actors connect to other
// processes and send requests to actors.

namespace troupe {

/// Makes an endpoint that connects only and does not listen.
/// @errors throws what `net::credentials_from_environment` throws, if the
///         options give no credentials.
std::unique_ptr<net::endpoint>
make_client_endpoint(const client_options& options);

/// Connects to a process and waits for the connection or the stream. The
/// purpose in `hello` decides which of them it is (`net::carries_frames`).
/// @errors throws std::invalid_argument for a malformed address, and
///         `job_error` that names the address: refused, peer_lost, unreachable,
///         or protocol if the purpose is one of the other function.
std::shared_ptr<net::connection> connect(net::endpoint& endpoint,
                                         const std::string& address,
                                         const net::hello& hello,
                                         std::chrono::milliseconds timeout);
std::unique_ptr<net::stream> connect_stream(net::endpoint& endpoint,
                                            const std::string& address,
                                            const net::hello& hello,
                                            std::chrono::milliseconds timeout);

namespace detail {

/// Returns the exit reason of an actor that has ended, as the error of a
/// request to this actor.
caf::error exit_reason_of(caf::scoped_actor& self,
                          const caf::actor_addr& ended_actor);

} // namespace detail

/// Sends a request to an actor and waits for the response, at most for
/// `timeout`.
/// @param operation start of the error text, such as "node a:1: spawning
///        \"x\"".
/// @errors throws `job_error` with the code of the actor's error; stalled if no
///         response arrives in time; peer_lost with the exit reason if the
///         actor has ended.
template <class T, class Handle, class... Ts>
T ask(caf::actor_system& system, const std::string& operation,
      const Handle& target, std::chrono::milliseconds timeout,
      const Ts&... xs) {
  std::optional<T> response;
  caf::error error;
  {
    caf::scoped_actor self{system};
    self->request(target, timeout, xs...)
      .receive([&](T& x) { response = std::move(x); },
               [&](caf::error& e) { error = std::move(e); });
    if (error == caf::sec::request_receiver_down)
      error = detail::exit_reason_of(self, target->address());
  }
  release_caf_logger();
  if (response)
    return std::move(*response);
  if (error == caf::sec::request_timeout)
    throw job_error{ec::stalled, operation + ": no response within "
                                   + std::to_string(timeout.count()) + " ms"};
  const auto note = wire::to_wire(error, system);
  throw job_error{note.code, operation + ": " + note.text};
}

} // namespace troupe
