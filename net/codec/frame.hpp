#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// A frame is a message between two processes. docs/wire.md has the grammar and
// an example.

namespace troupe::net {

/// Kind of a frame. The numbers are a wire format: append new ones, never reuse
/// old ones.
enum class frame_kind : std::uint8_t {
  oneway = 1, ///< A message that has no answer.
  /// A message. The peer answers by one response or error with the same tag.
  request = 2,
  response = 3,
  /// Answer to a request that failed. The payload has a code and a text.
  error = 4,
  /// Notifies the peer that the role has terminated. The payload has a code and
  /// a text.
  terminated = 5,
};

/// Priority of a frame. Control frames are written before bulk frames that
/// wait.
enum class priority : std::uint8_t { control = 0, bulk = 1 };

/// A message on one channel of a connection.
struct frame {
  frame_kind kind = frame_kind::oneway;
  net::priority priority = net::priority::control;
  /// Number of the sender's view. Roles of a job send 1, the view with which
  /// the job has begun. Clients and nodes send 0.
  std::uint64_t view_id = 0;
  /// Number of the frame, which its sender increments per frame. An answer has
  /// the tag of its request.
  std::uint64_t tag = 0;
  std::vector<std::byte> payload;
  /// Number of the channel. The connection sets it when it sends the frame.
  /// Zero: not set.
  std::uint32_t channel = 0;

  friend bool operator==(const frame&, const frame&) = default;
};

/// Maximum sizes of accepted payloads, in bytes.
struct frame_limits {
  std::uint64_t control = std::uint64_t{1} << 20;
  std::uint64_t bulk = std::uint64_t{1} << 30;

  /// Returns the maximum payload size of a frame with priority `x`. It is the
  /// member `control` or `bulk`, but at most the largest number that the 32-bit
  /// length field of the header can hold.
  std::uint64_t max_payload(priority x) const {
    return std::min<std::uint64_t>(x == priority::control ? control : bulk,
                                   std::uint32_t(-1));
  }
};

inline constexpr std::size_t header_size = 40;
inline constexpr std::uint8_t wire_version = 4;
inline constexpr std::array<std::byte, 4> frame_magic{
  std::byte{'T'}, std::byte{'R'}, std::byte{'P'}, std::byte{'F'}};

/// Returns the header of a frame, including the checksums of header and
/// payload.
/// @errors throws std::logic_error for a payload of 4 GiB or more.
std::array<std::byte, header_size> header_of(const frame& message);

/// Returns the frame's header followed by its payload.
std::vector<std::byte> to_bytes(const frame& x);

} // namespace troupe::net
