#pragma once

#include <bit>
#include <cstdint>

// Functions whose results have the same bits with every C library. The compiler
// must not contract operations to fused multiply-adds.

namespace troupe::detail {

/// Returns x^n. Uses repeated squaring.
inline double power(double x, std::uint64_t n) {
  double out = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1)
      out *= x;
  return out;
}

/// Returns ln x for positive normal x, with an error of a few units in the last
/// place. If x = m 2^e, then ln x = ln m + e ln 2. ln m is computed as
/// 2 atanh s with s = (m - 1) / (m + 1).
inline double log(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  constexpr std::int64_t root_half = 0x3FE6A09E667F3BCD; // sqrt(1/2)
  const auto exponent = (bits - root_half) >> 52;
  const auto m // in [sqrt(1/2), sqrt(2))
    = std::bit_cast<double>(bits - exponent * (std::int64_t{1} << 52));
  const double s = (m - 1) / (m + 1), q = s * s;
  double series = 1.0 / 23;
  for (int odd = 21; odd >= 1; odd -= 2)
    series = series * q + 1.0 / odd;
  return 2 * s * series + static_cast<double>(exponent) * 0.6931471805599453;
}

/// Returns cos(pi x) for x in [0, 1]. Uses the Taylor series around 0, 1/2 or
/// 1, whichever is nearest to x.
inline double cos_pi(double x) {
  if (x > 0.5)
    return -cos_pi(1 - x);
  constexpr double pi = 3.141592653589793;
  const bool is_sine = x > 0.25;
  const auto y = is_sine ? pi * (0.5 - x) : pi * x; // At most pi / 4.
  double term = is_sine ? y : 1, sum = term;
  for (int n = is_sine ? 2 : 1; n < 20; n += 2) {
    term *= -y * y / (n * (n + 1));
    sum += term;
  }
  return sum;
}

} // namespace troupe::detail
