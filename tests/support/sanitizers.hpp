#pragma once

#include <cstdint>

namespace troupe::test {

/// How many times as long as elsewhere a thing may take here, roughly: for
/// deadlines that a test sets as short as it can, because it waits for them.
#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 20;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int slowness = 5;
#else
inline constexpr int slowness = 1;
#endif

/// How many of `all` seeds to try. A sanitizer finds in few what it can find,
/// as each goes the same ways; rare orders are for the tests without one.
constexpr std::uint64_t seeds_of(std::uint64_t all) {
  return slowness == 1 ? all : slowness < 10 ? (all + 4) / 5 : (all + 9) / 10;
}

} // namespace troupe::test
