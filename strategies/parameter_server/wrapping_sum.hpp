#pragma once

#include <concepts>
#include <type_traits>

namespace troupe::parameter_server {

/// Returns x + y. A sum of integers that does not fit wraps around.
template <class T>
constexpr T wrapping_add(T x, T y) {
  if constexpr (std::integral<T>) {
    using bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<bits>(x) + static_cast<bits>(y));
  } else {
    return x + y;
  }
}

/// Returns x - y. A difference of integers that does not fit wraps around.
template <class T>
constexpr T wrapping_subtract(T x, T y) {
  if constexpr (std::integral<T>) {
    using bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<bits>(x) - static_cast<bits>(y));
  } else {
    return x - y;
  }
}

} // namespace troupe::parameter_server
