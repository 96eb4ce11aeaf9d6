#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace troupe::net {

using proof = std::array<std::byte, 32>;

/// HMAC-SHA-256 of the parts, one after the other. @pre all but the last have
/// a length that both sides know, or the same bytes could be cut differently.
proof prove(std::string_view secret,
            std::initializer_list<std::span<const std::byte>> parts);

/// In the same time wherever they differ.
bool is_same(std::span<const std::byte> a, std::span<const std::byte> b);

/// Random bytes for keys and nonces.
/// @errors throws std::runtime_error if there are none.
void fill_randomly(std::span<std::byte> to);

} // namespace troupe::net
