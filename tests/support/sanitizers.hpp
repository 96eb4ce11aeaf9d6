#pragma once

#include <cstdint>

namespace troupe::test {

/// Approximate slowdown by a sanitizer: a factor for the short deadlines of
/// tests that wait for them.
#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int slowness = 5;
#else
inline constexpr int slowness = 1;
#endif

/// Number of seeds to try. With a sanitizer a few suffice, because all seeds
/// execute the same code. Rare orders of events are for tests without a
/// sanitizer.
constexpr std::uint64_t seeds_of(std::uint64_t all) {
  return slowness == 1 ? all : slowness < 10 ? (all + 4) / 5 : (all + 9) / 10;
}

} // namespace troupe::test
