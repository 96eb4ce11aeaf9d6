#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace troupe::net {

/// A struct with a function `auto fields() { return std::tie(a, b); }`.
template <class T>
concept lists_fields = requires(T& x) {
  x.fields();
};

namespace detail {

template <class T>
struct is_encodable;

template <class T>
struct all_encodable : std::false_type {};
template <class... Ts>
struct all_encodable<std::tuple<Ts&...>>
  : std::conjunction<is_encodable<Ts>...> {};

template <class T>
struct fields_encodable : std::false_type {};
template <lists_fields T>
struct fields_encodable<T>
  : all_encodable<decltype(std::declval<T&>().fields())> {};

template <class T>
struct is_encodable
  : std::bool_constant<
      std::integral<
        T> || std::same_as<T, float> || std::same_as<T, double> || std::is_enum_v<T> || fields_encodable<T>::value> {
};
template <>
struct is_encodable<std::string> : std::true_type {};
template <class T>
struct is_encodable<std::vector<T>> : is_encodable<T> {};
template <class... Ts>
struct is_encodable<std::variant<Ts...>>
  : std::conjunction<is_encodable<Ts>...> {};
template <> // its elements are bits, which have no address
struct is_encodable<std::vector<bool>> : std::false_type {};

} // namespace detail

/// A type that can be sent: an integer, float, double, bool, enumeration or
/// string, or a vector of such values. A struct can be sent if its listed
/// fields can, and a variant if its alternatives can.
template <class T>
concept encodable = detail::is_encodable<T>::value;

} // namespace troupe::net
