#pragma once

#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

/// e^x with an error of at most 1 ulp, also for subnormal results; NaN for NaN.
/// e^x = 2^k e^r, with k = round(x / ln 2) and r = x - k ln 2. ln 2 is split
/// into 0.693359375, whose product with k is exact, and a small rest. A
/// polynomial approximates e^r on [-ln 2 / 2, ln 2 / 2].
/// @source Cody & Waite, Software Manual for the Elementary Functions, 1980;
///         coefficients of Cephes (Moshier).
static inline vec exp_of(vec x) {
  x = x > 89.0f ? splat(89.0f) : x;     // e^x is infinite above 89.
  x = x < -104.0f ? splat(-104.0f) : x; // e^x is 0 below -104.
  // This is 1.5 * 2^23; adding it rounds a float to an integer.
  constexpr float to_integer = 12582912.0f;
  const vec shifted = x * 1.44269504f + to_integer;
  const vec k = shifted - to_integer;
  const vec r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const vec e = p * (r * r) + r + 1.0f;
  // Multiplies `e`, which holds e^r, by 2^k in two factors. The reason is that
  // k is in [-150, 128], but 2^k is a normal float only for k in [-126, 127].
  const ints whole_k = (ints)shifted - 0x4B400000;
  const ints half = whole_k >> 1;
  const vec first = (vec)((half + 127) << 23);
  const vec second = (vec)((whole_k - half + 127) << 23);
  return e * first * second;
}

/// ln(1 + x) for x in [0, 1], with an error of at most 2 ulp; NaN for NaN. It
/// is 2 atanh s with s = x / (2 + x), and s is at most 1/3.
static inline vec log_of_1_plus(vec x) {
  const vec s = x / (x + 2.0f), q = s * s;
  vec p = splat(1.0f / 17);
  p = p * q + 1.0f / 15;
  p = p * q + 1.0f / 13;
  p = p * q + 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  const vec twice = s + s;
  return twice + twice * (q * p);
}

/// ln x for positive finite x, accurate to the last bit of a float. It is
/// scalar, because softmax_cross_entropy calls it only once per row.
static inline float log_of(float x) {
  std::int64_t bits;
  const double wide = x;
  __builtin_memcpy(&bits, &wide, sizeof bits);
  constexpr std::int64_t root_half = 0x3FE6A09E667F3BCD; // sqrt(1/2)
  const auto exponent = (bits - root_half) >> 52;
  bits -= exponent * (std::int64_t{1} << 52);
  double m; // In [sqrt(1/2), sqrt(2)).
  __builtin_memcpy(&m, &bits, sizeof m);
  const double s = (m - 1) / (m + 1), q = s * s;
  double series = 1.0 / 13;
  for (int odd = 11; odd >= 1; odd -= 2)
    series = series * q + 1.0 / odd;
  return static_cast<float>(
    2 * s * series + static_cast<double>(exponent) * 0.6931471805599453);
}

} // namespace troupe::TROUPE_LEVEL
