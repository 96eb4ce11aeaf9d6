#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace troupe::net {

/// An HMAC-SHA-256 value.
using hmac = std::array<std::byte, 32>;

/// Returns the HMAC-SHA-256 of the concatenated `inputs`. @pre the lengths of
/// all inputs but the last are fixed. Otherwise different inputs could have the
/// same concatenation.
hmac hmac_sha256(std::string_view secret,
                 std::initializer_list<std::span<const std::byte>> inputs);

/// True if `a` and `b` are equal. The duration depends on the sizes only, not
/// on the contents.
bool constant_time_equal(std::span<const std::byte> a,
                         std::span<const std::byte> b);

/// Fills a buffer with cryptographically secure random bytes.
/// @errors throws std::system_error if no random bytes are available.
void random_bytes(std::span<std::byte> target);

} // namespace troupe::net
