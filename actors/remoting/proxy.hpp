#pragma once

#include "troupe/actors/remoting/proxy_core.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/type_erased_tuple.hpp>
#include <caf/typed_actor.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

// -- signatures ---------------------------------------------------------------

/// How a proxy sends one message of a role's interface.
struct proxy_signature {
  /// True if a message is this one.
  bool (*matches)(const caf::type_erased_tuple& message);
  /// Name of the message in errors and in the log.
  std::string (*name)();
  bool is_oneway; ///< The message has no response.
  net::priority priority;
  /// Name of a type in the message that cannot be sent to another process.
  /// Empty: the message can be sent.
  std::string_view nonserializable_type;
  /// Fingerprint of the schema. Zero if the message cannot be sent.
  std::uint32_t fingerprint;
  /// Writes the values of the message. Null: the message cannot be sent.
  void (*write)(wire::message_writer& out,
                const caf::type_erased_tuple& message);
  /// Reads the response. Null: there is no response.
  proxy_core::response_reader read;
};

namespace detail {

template <class... Is, std::size_t... Positions>
void write_values(wire::message_writer& out,
                  const caf::type_erased_tuple& message,
                  std::index_sequence<Positions...>) {
  (wire::put(out, message.get_as<Is>(Positions)), ...);
}

template <class... Is, class... Os>
proxy_signature proxy_signature_of(
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>> sig) {
  using message = wire::signature<decltype(sig)>;
  proxy_signature made{.matches =
                         [](const caf::type_erased_tuple& xs) {
                           return xs.match_elements<Is...>();
                         },
                       .name = wire::message_name<Is...>,
                       .is_oneway = message::is_oneway,
                       .priority = wire::priority_of<Is...>,
                       .nonserializable_type = message::nonserializable_type(),
                       .fingerprint = 0,
                       .write = nullptr,
                       .read = nullptr};
  if constexpr (message::nonserializable_type().empty()) {
    made.fingerprint = message::fingerprint();
    made.write = [](wire::message_writer& out,
                    const caf::type_erased_tuple& xs) {
      write_values<Is...>(out, xs, std::index_sequence_for<Is...>{});
    };
    if constexpr (!message::is_oneway)
      made.read = wire::read_message<Os...>;
  }
  return made;
}

template <class... Sigs>
std::vector<proxy_signature>
proxy_signatures_of(caf::detail::type_list<Sigs...>) {
  return {proxy_signature_of(Sigs{})...};
}

/// Spawns a proxy for the role with this interface.
/// @pre the signatures are never destroyed.
caf::actor spawn_proxy(caf::actor_system& sys,
                       std::span<const proxy_signature> signatures,
                       std::shared_ptr<net::channel> channel,
                       const proxy_options& options);

} // namespace detail

// -- spawning -----------------------------------------------------------------

/// Spawns a proxy. It stands for a role at the other end of a channel, and has
/// the interface of that role. The proxy owns the channel, and closes the
/// channel when the proxy terminates. A request may fail with an error of the
/// role, or with
///   busy         too many requests are open, or the channel accepts no frame
///   invalid      the message is too large, or of a type that cannot be sent
///   stalled      no response in time
///   peer_lost, unreachable, protocol    the proxy terminates with this reason
/// If a caller sends a oneway message by `request`, an empty response arrives
/// when the proxy has sent the message or put it into the backlog
/// (proxy_options).
template <class Role>
Role spawn_proxy(caf::actor_system& sys, std::shared_ptr<net::channel> channel,
                 const proxy_options& options = {}) {
  static const auto signatures =
    detail::proxy_signatures_of(typename Role::signatures{});
  return caf::actor_cast<Role>(
    detail::spawn_proxy(sys, signatures, std::move(channel), options));
}

} // namespace troupe
