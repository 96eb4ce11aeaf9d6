#pragma once

#include <cstdint>

namespace troupe::test {

/// Approximate slowdown by a sanitizer. Tests that wait until a short deadline
/// multiply the deadline by this factor.
#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int slowness = 5;
#else
inline constexpr int slowness = 1;
#endif

/// Returns the number of seeds that a test tries. With a sanitizer a few seeds
/// suffice, because all seeds execute the same code. Tests without a sanitizer
/// find the rare orders of events.
constexpr std::uint64_t seeds_of(std::uint64_t all) {
  return slowness == 1 ? all : slowness < 10 ? (all + 4) / 5 : (all + 9) / 10;
}

} // namespace troupe::test
