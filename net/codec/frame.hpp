#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// What two processes say to each other, whatever carries it. docs/wire.md has
// the grammar and an example.

namespace troupe::net {

/// The numbers are a wire format: append, never reuse.
enum class frame_kind : std::uint8_t {
  fact = 1,    ///< Nobody answers.
  request = 2, ///< One reply or failure with the same tag comes back.
  reply = 3,
  failure = 4, ///< A code and a text instead of a reply.
  gone = 5,    ///< Who was spoken to is known to have ended; a code and a text.
};

/// What waits behind what: control frames overtake bulk frames.
enum class priority : std::uint8_t { control = 0, bulk = 1 };

struct frame {
  frame_kind kind = frame_kind::fact;
  net::priority priority = net::priority::control;
  std::uint64_t epoch = 0; ///< Of the membership.
  std::uint64_t tag = 0;   ///< Numbers the speaker's frames; a reply's: which.
  std::vector<std::byte> payload;
  std::uint32_t channel = 0; ///< Of a connection, which sets it; else 0.

  friend bool operator==(const frame&, const frame&) = default;
};

/// Most bytes of a payload that are accepted.
struct frame_limits {
  std::uint64_t control = std::uint64_t{1} << 20;
  std::uint64_t bulk = std::uint64_t{1} << 30;

  /// No more than a length has bits for.
  std::uint64_t of(priority x) const {
    return std::min<std::uint64_t>(x == priority::control ? control : bulk,
                                   std::uint32_t(-1));
  }
};

inline constexpr std::size_t header_size = 40;
inline constexpr std::uint8_t wire_version = 2;
inline constexpr std::array<std::byte, 4> frame_magic{
  std::byte{'T'}, std::byte{'R'}, std::byte{'P'}, std::byte{'F'}};

/// The bytes before the payload, with the checksums of both.
/// @errors throws std::logic_error for a payload of 4 GiB and more.
std::array<std::byte, header_size> header_of(const frame& x);

/// Header and payload.
std::vector<std::byte> to_bytes(const frame& x);

} // namespace troupe::net
