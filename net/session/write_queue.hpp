#pragma once

#include "troupe/net/codec/frame.hpp"

#include <deque>
#include <span>
#include <vector>

namespace troupe::net {

/// Queue of encoded frames that wait to be written. Control frames are written
/// before bulk frames. Small control frames are joined, so that one system call
/// writes many.
class write_queue {
public:
  /// Encodes and appends a frame.
  void push(const frame& queued);

  bool empty() const { return queued_bytes_[0] + queued_bytes_[1] == 0; }
  /// Returns the number of bytes of a priority that are not yet written.
  std::size_t queued_bytes(priority frame_priority) const {
    return queued_bytes_[std::size_t(frame_priority)];
  }

  /// Returns the bytes to write next. Until `written` reports them, further
  /// calls return these bytes. Empty: no bytes wait.
  std::span<const std::byte> front();
  void written(std::size_t bytes);

private:
  /// Bytes that `front` returns, from `offset_` on.
  std::vector<std::byte> writing_;
  std::size_t offset_ = 0;
  /// Priority of the bytes in `writing_`.
  priority writing_priority_ = priority::control;
  std::vector<std::byte> control_;
  std::deque<std::vector<std::byte>> bulk_;
  std::size_t queued_bytes_[2] = {0, 0};
};

} // namespace troupe::net
