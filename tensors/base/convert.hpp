#pragma once

#include "troupe/tensors/base/bfloat16.hpp"

#include <concepts>
#include <limits>
#include <type_traits>

namespace troupe {

/// Converts a number to another type. A float beyond the range of an integer
/// type becomes the nearest value of that type, and NaN becomes 0, as in XLA.
/// Other floats are truncated towards zero. Integers wrap around. As a bool,
/// every value but 0 is true.
template <class To, class From>
constexpr To convert(From x) {
  if constexpr (std::same_as<From, bfloat16>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (
    std::floating_point<From> && std::integral<To> && !std::same_as<To, bool>) {
    using limits = std::numeric_limits<To>;
    // `low` and `beyond` are exact in float and double: each is 0 or +-2^k.
    constexpr auto low = static_cast<From>(limits::min());
    constexpr auto beyond = static_cast<From>(limits::max() / 2 + 1) * From{2};
    if (x != x)
      return 0;
    if (x <= low)
      return limits::min();
    if (x >= beyond)
      return limits::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

} // namespace troupe
