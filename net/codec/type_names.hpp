#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

// Takes names of types and enumerators from the compiler, so that no list of
// names has to be maintained.

namespace troupe::net {

namespace detail {

template <class T>
constexpr std::string_view spelled_type() {
  return __PRETTY_FUNCTION__;
}

template <auto X>
constexpr std::string_view spelled_value() {
  return __PRETTY_FUNCTION__;
}

/// Returns the argument in a text such as "... [with T = int; ...]": the part
/// between " = " and the next ';' or ']'.
constexpr std::string_view argument(std::string_view text) {
  auto from = text.find(" = ") + 3;
  auto to = text.find_first_of(";]", from);
  return text.substr(from, to - from);
}

/// True if `I` is an enumerator of `E`. The compiler spells any other value as
/// a cast or a number.
template <class E, std::size_t I>
constexpr bool is_named() {
  constexpr auto text = argument(spelled_value<static_cast<E>(I)>());
  return text.front() != '(' && !(text.front() >= '0' && text.front() <= '9');
}

template <class E, std::size_t... Is>
constexpr bool is_named(std::size_t x, std::index_sequence<Is...>) {
  return ((x == Is && is_named<E, Is>()) || ...);
}

} // namespace detail

/// Returns the name of a type for messages, such as
/// "troupe::step_function_ref".
template <class T>
constexpr std::string_view type_name() {
  return detail::argument(detail::spelled_type<T>());
}

/// Only enumerators below this value can be sent between processes.
inline constexpr std::size_t max_enumerators = 64;

/// True if the value is an enumerator of `E` below `max_enumerators`.
template <class E>
constexpr bool is_enumerator(std::underlying_type_t<E> x) {
  using unsigned_x = std::make_unsigned_t<std::underlying_type_t<E>>;
  const auto y = static_cast<unsigned_x>(x);
  return y < max_enumerators
         && detail::is_named<E>(static_cast<std::size_t>(y),
                                std::make_index_sequence<max_enumerators>{});
}

} // namespace troupe::net
