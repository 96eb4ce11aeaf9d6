#pragma once

#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/codec/frame.hpp"

#include <optional>
#include <variant>

namespace troupe::net {

/// Makes frames of a stream of bytes that may be cut anywhere. The first
/// malformed byte ends it: nobody knows where the next frame would begin.
class frame_decoder {
public:
  explicit frame_decoder(const frame_limits& limits = {}) : limits_{limits} {}

  /// `more`: all bytes are taken, and the frame is not complete.
  struct more {};
  using result = std::variant<more, frame, malformed>;

  /// Takes bytes off the front, to the end of a frame at most. Memory follows
  /// the bytes that came, not the length that was claimed.
  result next(std::span<const std::byte>& bytes);

  /// The stream has ended. @returns what is wrong if that cuts a frame short.
  std::optional<malformed> finish() const;

  /// Bytes of memory behind the frame that is incomplete.
  std::size_t held() const { return frame_.payload.capacity(); }

private:
  std::optional<malformed> check_start() const;
  std::optional<malformed> check_header() const;
  void read_header();
  void take_payload(std::span<const std::byte>& bytes);
  malformed bad(std::size_t offset, std::string why) const;
  result fail(malformed&& x);

  frame_limits limits_;
  std::uint64_t begin_ = 0; ///< Of the frame in the stream.
  std::array<std::byte, header_size> header_{};
  std::size_t filled_ = 0;   ///< Bytes of the header.
  std::uint64_t length_ = 0; ///< Of the payload, checked.
  frame frame_;
  std::optional<malformed> broken_;
};

} // namespace troupe::net
