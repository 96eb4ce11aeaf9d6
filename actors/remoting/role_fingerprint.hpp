#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <concepts>
#include <string>
#include <type_traits>

// Fingerprints of a role's types. They must be equal in two programs before one
// of them spawns the role in the other.

namespace troupe {

namespace detail {

template <class List>
struct interface;
template <class... Sigs>
struct interface<caf::detail::type_list<Sigs...>> {
  static constexpr bool crosses =
    (wire::signature<Sigs>::local().empty() && ...);
  static std::string text() {
    return ((wire::signature<Sigs>::text() + ";") + ... + "");
  }
};

} // namespace detail

/// Schema of a role's spawn arguments in the notation of docs/wire.md, such as
/// "(i4s)".
template <net::encodable... Args>
std::string text_of_arguments() {
  std::string text = "(";
  (wire::describe<Args>(text), ...);
  return text + ")";
}

template <class Handle, net::encodable... Args>
role_form form_of_role() {
  using all = detail::interface<typename Handle::signatures>;
  static_assert(all::crosses,
                "every message of a remote role must consist of types that can "
                "be sent to another process: numbers, texts, tensors, lists "
                "and structs with `fields`");
  return {wire::number_of(all::text()),
          wire::number_of(text_of_arguments<Args...>())};
}

namespace detail {

/// The type that an argument is sent as: a string literal is sent as
/// std::string.
template <class T>
using sent_as =
  std::conditional_t<!net::encodable<T> && std::convertible_to<T, std::string>,
                     std::string, T>;

} // namespace detail

/// Makes the request that spawns `role` with these arguments.
template <class Handle, class... Args>
spawn_order order_of(const std::string& role, const Args&... args) {
  net::writer to;
  to(static_cast<const detail::sent_as<std::decay_t<Args>>&>(args)...);
  spawn_order x{
    role, form_of_role<Handle, detail::sent_as<std::decay_t<Args>>...>(), {}};
  for (const auto b : std::move(to).bytes())
    x.arguments.push_back(std::to_integer<std::uint8_t>(b));
  return x;
}

} // namespace troupe
