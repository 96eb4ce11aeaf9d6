#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace troupe::net {

/// A HMAC-SHA-256 value.
using hmac = std::array<std::byte, 32>;

/// Returns the HMAC-SHA-256 of the concatenated `inputs`. @pre all but the last
/// have a length that both sides know; otherwise the same bytes could be split
/// differently.
hmac hmac_sha256(std::string_view secret,
                 std::initializer_list<std::span<const std::byte>> inputs);

/// Compares in time independent of the contents.
bool constant_time_equal(std::span<const std::byte> a,
                         std::span<const std::byte> b);

/// Fills a buffer with random bytes for keys and nonces.
/// @errors throws std::runtime_error if there are none.
void random_bytes(std::span<std::byte> target);

} // namespace troupe::net
