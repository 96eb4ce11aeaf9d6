#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::test {

#if defined(__SANITIZE_THREAD__)
#define TROUPE_HAS_TSAN
#elif defined(__SANITIZE_ADDRESS__)
#define TROUPE_HAS_ASAN
#elif defined(__has_feature) // clang
#if __has_feature(thread_sanitizer)
#define TROUPE_HAS_TSAN
#elif __has_feature(address_sanitizer)
#define TROUPE_HAS_ASAN
#endif
#endif

#ifdef TROUPE_HAS_TSAN
inline constexpr bool has_thread_sanitizer = true;
#else
inline constexpr bool has_thread_sanitizer = false;
#endif
#ifdef TROUPE_HAS_ASAN
inline constexpr bool has_address_sanitizer = true;
#else
inline constexpr bool has_address_sanitizer = false;
#endif

/// Approximate slowdown by a sanitizer. Tests that wait until a short deadline
/// multiply the deadline by this factor.
inline constexpr int slowness = has_thread_sanitizer    ? 20
                                : has_address_sanitizer ? 5
                                                        : 1;

/// Returns the number of seeds that a test tries: a fifth of `all`, and with
/// ThreadSanitizer a tenth. The environment variable TROUPE_ALL_SEEDS makes it
/// `all` (scripts/nightly.sh): rare orders of events need many seeds.
inline std::uint64_t seeds_of(std::uint64_t all) {
  static const bool is_long = std::getenv("TROUPE_ALL_SEEDS") != nullptr;
  const std::uint64_t part = slowness > 10 ? 10 : 5;
  return is_long ? all : (all + part - 1) / part;
}

} // namespace troupe::test
