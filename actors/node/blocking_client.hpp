#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/local_message.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/message.hpp>
#include <caf/message_builder.hpp>
#include <caf/response_type.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <type_traits>

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

/// Sends a request to an actor and waits for the response, as `ask` does.
caf::message await_response(caf::actor_system& system,
                            const std::string& operation,
                            const caf::actor& target,
                            std::chrono::milliseconds timeout,
                            caf::message&& request);

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
  using response = caf::response_type_t<
    typename Handle::signatures,
    caf::detail::implicit_conversions_t<std::decay_t<Ts>>...>;
  static_assert(std::is_same_v<response, caf::detail::type_list<T>>,
                "the actor responds to this request with another type");
  caf::message_builder request;
  request.append_all(xs...);
  caf::message values = detail::await_response(
    system, operation, caf::actor_cast<caf::actor>(target), timeout,
    request.move_to_message());
  return std::move(values.get_mutable_as<T>(0));
}

} // namespace troupe
