#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/actors/remoting/message_type_check.hpp"

#include <concepts>
#include <string>
#include <type_traits>

// Fingerprints of a role's types. A node spawns a role for a client only if
// both programs have the same fingerprints of the role.

namespace troupe {

namespace detail {

template <class Sig>
struct signature_check;
template <class... Is, class... Os>
struct signature_check<
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>> {
  static constexpr bool is_valid = (message_type_check<Is>::is_valid && ...)
                                   && (message_type_check<Os>::is_valid && ...);
};

template <class List>
struct interface;
template <class... Sigs>
struct interface<caf::detail::type_list<Sigs...>> {
  static constexpr bool is_serializable =
    (wire::signature<Sigs>::nonserializable_type().empty() && ...);
  static constexpr bool is_valid = (signature_check<Sigs>::is_valid && ...);
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

/// Computes the fingerprint of a role.
/// Does not compile if a message or an argument cannot be sent.
template <class Handle, net::encodable... Args>
role_fingerprint fingerprint_of_role() {
  using messages = detail::interface<typename Handle::signatures>;
  constexpr bool has_valid_types =
    messages::is_valid && (detail::message_type_check<Args>::is_valid && ...);
  // If a type is invalid, its check has reported the error already.
  static_assert(!has_valid_types || messages::is_serializable,
                "every message of a remote role must consist of types that can "
                "be sent to another process: numbers, texts, tensors, lists, "
                "variants and structs with `fields`");
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
