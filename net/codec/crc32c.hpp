#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::net {

/// CRC-32C of `bytes`, going on from that of the bytes before:
/// `crc32c(b, crc32c(a))` is that of a and b.
/// @source RFC 3720, B.4; polynomial 0x1EDC6F41.
std::uint32_t crc32c(std::span<const std::byte> bytes,
                     std::uint32_t before = 0);

/// The same by tables alone, as on a processor without the instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes,
                               std::uint32_t before = 0);

} // namespace troupe::net
