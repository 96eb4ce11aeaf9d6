#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

namespace troupe {

/// Maximum payload of a packet, in bytes.
inline constexpr std::size_t max_packet_bytes = std::size_t{256} * 1024;

/// Header of a packet as bytes: its fields in the order of the struct, which
/// has no padding. Numbers are little-endian.
using packet_header_bytes = std::array<std::byte, 64>;

static_assert(std::endian::native == std::endian::little);

template <class Header>
packet_header_bytes encode_header(const Header& header) {
  static_assert(std::has_unique_object_representations_v<Header>);
  return std::bit_cast<packet_header_bytes>(header);
}

/// Reads a header. Accepts any bytes.
template <class Header>
Header decode_header(const packet_header_bytes& bytes) {
  return std::bit_cast<Header>(bytes);
}

} // namespace troupe
