#pragma once

#include "troupe/actors/remoting/message_codec.hpp"

#include <tuple>
#include <variant>
#include <vector>

// A check of the types in a role's messages. It replaces errors within the
// codec by one sentence.

namespace troupe::detail {

template <class T>
struct field_check {
  static constexpr bool has_no_tensor = !wire::carries_tensors<T>;
};

template <class T>
struct field_check<std::vector<T>> : field_check<T> {};

template <class... Ts>
struct field_check<std::variant<Ts...>> {
  static constexpr bool has_no_tensor = (field_check<Ts>::has_no_tensor && ...);
};

template <class Fields>
struct fields_check;
template <class... Ts>
struct fields_check<std::tuple<Ts&...>> {
  static constexpr bool has_no_tensor = (field_check<Ts>::has_no_tensor && ...);
};

template <has_fields T>
struct field_check<T> : fields_check<decltype(std::declval<T&>().fields())> {};

/// True if no struct in `T` has a field that is a tensor.
template <class T>
concept holds_no_tensor = wire::carries_tensors<T> || wire::is_atom<
  T>::value || field_check<T>::has_no_tensor;

/// Fails to compile if a remote role cannot have a message with a `T`. The
/// compiler's note about this struct names `T`.
template <class T>
struct message_type_check {
  static_assert(holds_no_tensor<T>,
                "a struct in a message of a role holds a tensor: make the "
                "tensor an argument of the message, beside the struct");
  static constexpr bool is_valid = holds_no_tensor<T>;
};
template <>
struct message_type_check<void> {
  static constexpr bool is_valid = true;
};

} // namespace troupe::detail
