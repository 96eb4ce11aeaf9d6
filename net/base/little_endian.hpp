#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace troupe::net {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied to the wire as they lie in memory");

/// A number from bytes at any address. @pre `sizeof(T)` bytes are there.
template <class T>
T load_le(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <class T>
void store_le(std::byte* to, T x) {
  std::memcpy(to, &x, sizeof x);
}

} // namespace troupe::net
