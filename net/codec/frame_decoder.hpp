#pragma once

#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/codec/frame.hpp"

#include <optional>
#include <variant>

namespace troupe::net {

/// Decodes frames from a byte stream. The pieces of the stream may end
/// anywhere. After an error every call returns that error, because the start of
/// the next frame is unknown.
class frame_decoder {
public:
  explicit frame_decoder(const frame_limits& limits = {}) : limits_{limits} {}

  /// Result of `next` if it consumed all bytes and the frame is still
  /// incomplete.
  struct more {};
  using result = std::variant<more, frame, decode_error>;

  /// Consumes bytes up to the end of one frame, and removes them from the span.
  /// It allocates memory for payload bytes that have arrived, not for the
  /// length in the header.
  result next(std::span<const std::byte>& bytes);

  /// Returns an error if the stream may not end here, because a frame is
  /// incomplete or invalid. To be called at the end of the stream.
  std::optional<decode_error> finish() const;

  /// Returns the bytes of memory that are allocated for the incomplete frame.
  std::size_t allocated_bytes() const { return frame_.payload.capacity(); }

private:
  std::optional<decode_error> check_start() const;
  std::optional<decode_error> check_header() const;
  void read_header();
  void take_payload(std::span<const std::byte>& bytes);
  decode_error error_at(std::size_t offset, std::string reason) const;
  result fail(decode_error&& x);

  frame_limits limits_;
  std::uint64_t begin_ = 0; ///< Offset of the current frame in the stream.
  std::array<std::byte, header_size> header_{};
  std::size_t filled_ = 0; ///< Number of header bytes received.
  /// Payload length in bytes, after `check_header` has accepted it.
  std::uint64_t length_ = 0;
  frame frame_;
  std::optional<decode_error> error_;
};

} // namespace troupe::net
