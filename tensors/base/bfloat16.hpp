#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// A float with the exponent of float32 and 8 bits of precision: the upper half
/// of a float32. It only stores numbers: arithmetic converts it to float.
struct bfloat16 {
  bfloat16() = default;

  /// Rounds to the nearest value, ties to even. A NaN remains a NaN.
  constexpr bfloat16(float x) : bits{rounded(x)} {}
  /// Rounds once, not first to float.
  explicit bfloat16(double x) : bits{rounded(to_odd(x))} {}
  template <class T>
  requires std::is_integral_v<T>
  explicit bfloat16(T x) : bfloat16(static_cast<double>(x)) {}

  constexpr operator float() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }

  std::uint16_t bits = 0;

private:
  static constexpr std::uint16_t rounded(float x) {
    const auto all = std::bit_cast<std::uint32_t>(x);
    if (x != x)
      return static_cast<std::uint16_t>(all >> 16 | 0x40);
    // Half of the last place, less one if that place is even.
    return static_cast<std::uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }

  /// Returns a float that rounds as x does: the nearest one towards zero, with
  /// an odd last bit if it is not x.
  static float to_odd(double x) {
    auto near = static_cast<float>(x);
    if (x != x || static_cast<double>(near) == x)
      return near;
    if (std::abs(static_cast<double>(near)) > std::abs(x))
      near = std::nextafter(near, 0.0f);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(near) | 1);
  }
};

} // namespace troupe
