#pragma once

#include "troupe/net/codec/frame.hpp"

#include <deque>
#include <span>
#include <vector>

namespace troupe::net {

/// Encoded frames that wait to be written: control before bulk, and many small
/// control frames in one piece.
class write_queue {
public:
  /// Appends a frame.
  void push(const frame& queued);

  bool empty() const { return queued_bytes_[0] + queued_bytes_[1] == 0; }
  /// Number of bytes of a priority that are not yet written.
  std::size_t queued_bytes(priority frame_priority) const {
    return queued_bytes_[std::size_t(frame_priority)];
  }

  /// Bytes to be written next. They stay the same until they are reported as
  /// written. Empty: nothing waits.
  std::span<const std::byte> front();
  void written(std::size_t bytes);

private:
  std::vector<std::byte> writing_; ///< Bytes that are being written.
  std::size_t offset_ = 0;
  /// Priority of the bytes that are being written.
  priority writing_priority_ = priority::control;
  std::vector<std::byte> control_;
  std::deque<std::vector<std::byte>> bulk_;
  std::size_t queued_bytes_[2] = {0, 0};
};

} // namespace troupe::net
