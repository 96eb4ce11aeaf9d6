#pragma once

#include "troupe/strategies/fields.hpp"

#include <caf/allowed_unsafe_message_type.hpp>

#include <type_traits>
#include <vector>

// CAF calls a type "unsafe" if it cannot serialize it. CAF passes messages only
// between the actors of a process; between processes, they are sent in the
// frames of docs/wire.md. So no message struct needs a type id, and CAF's code
// that serializes, compares and prints a struct is not compiled.

namespace caf {

/// Allows a struct that lists its fields in a message.
template <troupe::has_fields T>
struct allowed_unsafe_message_type<T> : std::true_type {};

/// Allows a list of such values in a message.
template <class T, class Allocator>
struct allowed_unsafe_message_type<std::vector<T, Allocator>>
  : allowed_unsafe_message_type<T> {};

} // namespace caf
