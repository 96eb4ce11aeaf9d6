#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace troupe::net {

/// What the bytes of a frame are for.
enum class frame_kind : std::uint8_t {
  message = 1, ///< `what` numbers the signature of the receiver's interface.
  reply = 2,   ///< To the message of the same tag.
  error = 3,   ///< Likewise: a number and a text.
};

/// One message on a wire (docs/wire.md).
struct frame {
  frame_kind kind = frame_kind::message;
  std::uint16_t what = 0;
  std::uint64_t epoch = 0; ///< Of the membership.
  std::uint64_t tag = 0;   ///< Joins a reply to its message; 0: none wanted.
  std::vector<std::byte> payload;

  friend bool operator==(const frame&, const frame&) = default;
};

inline constexpr std::uint8_t wire_version = 1;
inline constexpr std::size_t header_size = 32;

/// A larger payload is refused on both sides.
inline constexpr std::size_t most_payload = std::size_t{1} << 30;

/// Bytes that are no frame of ours. The connection they came over is no use any
/// more: nobody knows where the next frame begins.
struct bad_frame : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// @errors throws std::logic_error if the payload is larger than may be.
std::vector<std::byte> encode(const frame& x);

/// How many bytes follow a header, so that a reader knows before it allocates.
/// @errors throws `bad_frame`: other version, unknown kind, too long.
std::size_t payload_size(std::span<const std::byte, header_size> header);

/// @errors throws `bad_frame`: the above, a length that is not that of the
///         bytes, a checksum that does not agree.
frame decode(std::span<const std::byte> bytes);

/// CRC-32C (Castagnoli) of what is given after what `before` is the sum of.
/// @source RFC 3720, appendix B.4.
std::uint32_t crc32c(std::span<const std::byte> bytes,
                     std::uint32_t before = 0);

} // namespace troupe::net
