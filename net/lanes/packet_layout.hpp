#pragma once

#include "troupe/net/lanes/lane.hpp"

// Offsets of the fields that precede a packet's payload in a stream. Numbers
// are little-endian.

namespace troupe::net::packet_layout {

inline constexpr std::size_t length = 0; ///< u32: size of the payload in bytes.
inline constexpr std::size_t flags = 4;  ///< u32: all bits are zero.
inline constexpr std::size_t header = 8;
/// CRC-32C of the 72 bytes before this field.
inline constexpr std::size_t header_checksum = 72;
/// CRC-32C of the first 72 bytes followed by the payload. Over TLS it covers
/// the first 72 bytes only.
inline constexpr std::size_t checksum = 76;
inline constexpr std::size_t size = 80;
static_assert(header + packet_header_size == header_checksum
              && checksum + 4 == size);

} // namespace troupe::net::packet_layout
