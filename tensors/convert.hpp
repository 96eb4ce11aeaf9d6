#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

namespace troupe {

/// A number as another type. A float that an integer type cannot hold becomes
/// the nearest value that it can, and NaN becomes 0, as in XLA; otherwise it is
/// cut towards zero. Integers wrap around; as a bool, all but 0 is true.
template <class To, class From>
constexpr To convert(From x) {
  if constexpr (std::floating_point<
                  From> && std::integral<To> && !std::same_as<To, bool>) {
    using limits = std::numeric_limits<To>;
    // Exact in both float types: a power of two, or 0.
    constexpr auto low = static_cast<From>(limits::min());
    constexpr auto beyond = static_cast<From>(limits::max() / 2 + 1) * From{2};
    if (x != x)
      return 0;
    if (x <= low)
      return limits::min();
    if (x >= beyond)
      return limits::max();
  }
  return static_cast<To>(x);
}

} // namespace troupe
