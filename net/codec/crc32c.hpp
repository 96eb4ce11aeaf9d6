#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::net {

/// Returns the CRC-32C of `bytes`. `before` is the checksum of preceding bytes:
/// `crc32c(b, crc32c(a))` is the checksum of a followed by b.
/// @source RFC 3720, B.4; polynomial 0x1EDC6F41.
std::uint32_t crc32c(std::span<const std::byte> bytes,
                     std::uint32_t before = 0);

/// Computes `crc32c` without the processor's CRC instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes,
                               std::uint32_t before = 0);

} // namespace troupe::net
