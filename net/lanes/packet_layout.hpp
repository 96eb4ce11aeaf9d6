#pragma once

#include "troupe/net/lanes/lane.hpp"

// Where the fields before a parcel's payload begin in a stream; numbers are
// little-endian.

namespace troupe::net::parcel_layout {

inline constexpr std::size_t length = 0; ///< Of the payload, u32.
inline constexpr std::size_t flags = 4;  ///< u32; all zero in version 1.
inline constexpr std::size_t head = 8;
inline constexpr std::size_t head_sum = 72; ///< CRC-32C of all before it.
inline constexpr std::size_t sum = 76;      ///< That, gone on over the payload.
inline constexpr std::size_t size = 80;
static_assert(head + parcel_head_size == head_sum && sum + 4 == size);

} // namespace troupe::net::parcel_layout
