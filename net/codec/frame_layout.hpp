#pragma once

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/frame.hpp"

// Offsets of the fields of a frame header. Numbers are little-endian.

namespace troupe::net::layout {

inline constexpr std::size_t magic = 0;
inline constexpr std::size_t version = 4;
inline constexpr std::size_t kind = 5;
inline constexpr std::size_t flags = 6; ///< All bits are zero in version 4.
inline constexpr std::size_t priority = 7;
inline constexpr std::size_t view_id = 8;
inline constexpr std::size_t tag = 16;
inline constexpr std::size_t length = 24; ///< Length of the payload in bytes.
inline constexpr std::size_t channel = 28;
/// CRC-32C of the 32 header bytes before this field.
inline constexpr std::size_t header_sum = 32;
/// CRC-32C of the first 32 header bytes followed by the payload.
inline constexpr std::size_t sum = 36;
static_assert(sum + 4 == header_size);

} // namespace troupe::net::layout
