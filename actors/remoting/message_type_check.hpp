#pragma once

#include "troupe/actors/remoting/message_codec.hpp"

#include <tuple>
#include <type_traits>
#include <vector>

// Checks of the types in a role's messages. They replace errors within CAF and
// Cereal by one sentence.

namespace troupe::detail {

/// Stands for an inspector of CAF.
struct any_inspector {
  using result_type = int;
  template <class... Ts>
  int operator()(Ts&&...) {
    return 0;
  }
};

/// Stands for an archive of Cereal.
struct any_archive {
  template <class... Ts>
  any_archive& operator()(Ts&&...) {
    return *this;
  }
};

namespace by_argument {

// These functions hide those of the namespace troupe, so that only
// argument-dependent lookup finds a function.
void inspect() = delete;
void serialize() = delete;

template <class T>
concept finds_functions = requires(T& x, any_inspector& f, any_archive& to) {
  inspect(f, x);
  serialize(to, x);
};

} // namespace by_argument

template <class T>
struct field_check {
  static constexpr bool has_functions = true;
  static constexpr bool has_no_tensor = !wire::carries_tensors<T>;
};

template <class T>
struct field_check<std::vector<T>> : field_check<T> {};

template <class Fields>
struct fields_check;
template <class... Ts>
struct fields_check<std::tuple<Ts&...>> {
  static constexpr bool has_functions = (field_check<Ts>::has_functions && ...);
  static constexpr bool has_no_tensor = (field_check<Ts>::has_no_tensor && ...);
};

template <has_fields T>
struct field_check<T> {
  using fields = fields_check<decltype(std::declval<T&>().fields())>;
  static constexpr bool has_functions =
    by_argument::finds_functions<T> && fields::has_functions;
  static constexpr bool has_no_tensor = fields::has_no_tensor;
};

/// True if CAF and Cereal find the functions of each struct in `T`.
template <class T>
concept finds_field_functions = field_check<T>::has_functions;

/// True if no struct in `T` has a field that is a tensor.
template <class T>
concept holds_no_tensor = wire::carries_tensors<T> || wire::is_atom<
  T>::value || field_check<T>::has_no_tensor;

/// Fails to compile if a remote role cannot have a message with a `T`. The
/// compiler's note about this struct names `T`.
template <class T>
struct message_type_check {
  static_assert(finds_field_functions<T>,
                "a struct in a message of a role is in a namespace of its own: "
                "add `using troupe::inspect, troupe::serialize;` to the "
                "namespace of the struct");
  static_assert(holds_no_tensor<T>,
                "a struct in a message of a role holds a tensor: make the "
                "tensor an argument of the message, beside the struct");
  static constexpr bool is_valid =
    finds_field_functions<T> && holds_no_tensor<T>;
};
template <>
struct message_type_check<void> {
  static constexpr bool is_valid = true;
};

} // namespace troupe::detail
