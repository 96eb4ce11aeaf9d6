#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <concepts>
#include <string>
#include <type_traits>

// Fingerprints of a role's types. A node spawns a role for a client only if
// both programs have the same fingerprints of the role.

namespace troupe {

namespace detail {

template <class List>
struct interface;
template <class... Sigs>
struct interface<caf::detail::type_list<Sigs...>> {
  static constexpr bool is_serializable =
    (wire::signature<Sigs>::nonserializable_type().empty() && ...);
  static std::string schema() {
    return ((wire::signature<Sigs>::schema() + ";") + ... + "");
  }
};

} // namespace detail

/// Schema of a role's spawn arguments in the notation of docs/wire.md, such as
/// "(i4s)".
template <net::encodable... Args>
std::string argument_schema() {
  std::string text = "(";
  (wire::append_schema<Args>(text), ...);
  return text + ")";
}

template <class Handle, net::encodable... Args>
role_fingerprint fingerprint_of_role() {
  using messages = detail::interface<typename Handle::signatures>;
  static_assert(messages::is_serializable,
                "every message of a remote role must consist of types that can "
                "be sent to another process: numbers, texts, tensors, lists "
                "and structs with `fields`");
  return {wire::fingerprint_of(messages::schema()),
          wire::fingerprint_of(argument_schema<Args...>())};
}

namespace detail {

/// The type as which an argument is sent: std::string for a string literal,
/// else the type of the argument.
template <class T>
using wire_type =
  std::conditional_t<!net::encodable<T> && std::convertible_to<T, std::string>,
                     std::string, T>;

} // namespace detail

/// Makes the request that spawns `role` with these arguments.
template <class Handle, class... Args>
spawn_request make_spawn_request(const std::string& role, const Args&... args) {
  net::writer out;
  out(static_cast<const detail::wire_type<std::decay_t<Args>>&>(args)...);
  spawn_request request{
    role,
    fingerprint_of_role<Handle, detail::wire_type<std::decay_t<Args>>...>(),
    {}};
  for (const auto b : std::move(out).bytes())
    request.arguments.push_back(std::to_integer<std::uint8_t>(b));
  return request;
}

} // namespace troupe
