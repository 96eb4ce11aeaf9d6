#pragma once

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/frame.hpp"

// Where the fields of a frame's header begin; numbers are little-endian.

namespace troupe::net::layout {

inline constexpr std::size_t magic = 0;
inline constexpr std::size_t version = 4;
inline constexpr std::size_t kind = 5;
inline constexpr std::size_t flags = 6; ///< All zero in version 2.
inline constexpr std::size_t priority = 7;
inline constexpr std::size_t epoch = 8;
inline constexpr std::size_t tag = 16;
inline constexpr std::size_t length = 24; ///< Of the payload.
inline constexpr std::size_t channel = 28;
inline constexpr std::size_t header_sum = 32; ///< CRC-32C of all before it.
inline constexpr std::size_t sum = 36; ///< That, gone on over the payload.
static_assert(sum + 4 == header_size);

} // namespace troupe::net::layout
