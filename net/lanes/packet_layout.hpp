#pragma once

#include "troupe/net/lanes/lane.hpp"

// Offsets of the fields before a packet's payload in a stream. Numbers are
// little-endian.

namespace troupe::net::packet_layout {

inline constexpr std::size_t length = 0; ///< Size of the payload, u32.
inline constexpr std::size_t flags = 4;  ///< u32; all zero in version 1.
inline constexpr std::size_t header = 8;
inline constexpr std::size_t header_checksum =
  72; ///< CRC-32C of all bytes before it.
/// CRC-32C of the first 72 bytes and of the payload. Over TLS: of the first 72
/// bytes only.
inline constexpr std::size_t checksum = 76;
inline constexpr std::size_t size = 80;
static_assert(header + packet_header_size == header_checksum
              && checksum + 4 == size);

} // namespace troupe::net::packet_layout
