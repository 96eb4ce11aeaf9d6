#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace troupe::net {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied to the wire in memory order");

/// Reads a number from an unaligned address. @pre `sizeof(T)` bytes are
/// readable.
template <class T>
T load_le(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// Writes a number to an unaligned address. @pre `sizeof(T)` bytes are
/// writable.
template <class T>
void store_le(std::byte* to, T x) {
  std::memcpy(to, &x, sizeof x);
}

} // namespace troupe::net
