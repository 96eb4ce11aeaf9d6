#pragma once

#include <cstdint>
#include <cstdlib>

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

/// Returns the number of seeds that a test tries: a fifth of `all`, and with
/// ThreadSanitizer a tenth. The environment variable TROUPE_ALL_SEEDS makes it
/// `all` (scripts/nightly.sh): rare orders of events need many seeds.
inline std::uint64_t seeds_of(std::uint64_t all) {
  static const bool is_long = std::getenv("TROUPE_ALL_SEEDS") != nullptr;
  const std::uint64_t part = slowness > 10 ? 10 : 5;
  return is_long ? all : (all + part - 1) / part;
}

} // namespace troupe::test
