#pragma once

#include <bit>
#include <cstdint>

namespace troupe::test {

inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool denormals_can_be_flushed = true;
#else
inline constexpr bool denormals_can_be_flushed = false;
#endif

/// Returns true if this thread flushes denormal numbers to zero. It computes
/// instead of reading the processor's control register.
inline bool flushes_denormals() {
  volatile float a = 0x1p-100f, b = 0x1p-40f, c = 0x1p-140f, d = 0x1p100f;
  const bool flushes_results = bits_of(a * b) == 0;
  const bool flushes_operands = bits_of(c * d) == 0;
  return flushes_results && flushes_operands;
}

} // namespace troupe::test
