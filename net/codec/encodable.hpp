#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace troupe::net {

/// A struct that lists its fields by `auto fields() { return std::tie(a, b); }`
/// and has a Cereal `serialize` that passes them on in that order.
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
template <> // its elements are not objects
struct is_encodable<std::vector<bool>> : std::false_type {};

} // namespace detail

/// Types that have a wire form: integers of fixed size, float, double, bool,
/// enumerations, strings, vectors of these, and structs that list such fields.
template <class T>
concept encodable = detail::is_encodable<T>::value;

} // namespace troupe::net
