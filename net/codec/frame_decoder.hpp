#pragma once

#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/codec/frame.hpp"

#include <optional>
#include <variant>

namespace troupe::net {

/// Decodes frames from a byte stream that may be split anywhere. After the
/// first error it returns that error forever, because the start of the next
/// frame is unknown.
class frame_decoder {
public:
  explicit frame_decoder(const frame_limits& limits = {}) : limits_{limits} {}

  /// All bytes were consumed and the frame is incomplete.
  struct more {};
  using result = std::variant<more, frame, decode_error>;

  /// Consumes bytes up to the end of one frame. Allocates memory for the bytes
  /// that have arrived, not for the length that the header claims.
  result next(std::span<const std::byte>& bytes);

  /// Ends the stream. @returns an error if that truncates a frame.
  std::optional<decode_error> finish() const;

  /// Bytes of memory allocated for the incomplete frame.
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
  std::size_t filled_ = 0;   ///< Number of header bytes received.
  std::uint64_t length_ = 0; ///< Payload length, validated.
  frame frame_;
  std::optional<decode_error> error_;
};

} // namespace troupe::net
