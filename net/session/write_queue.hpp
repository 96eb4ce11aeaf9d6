#pragma once

#include "troupe/net/codec/frame.hpp"

#include <deque>
#include <span>
#include <vector>

namespace troupe::net {

/// Encoded frames that wait to be written: control before bulk, and many small
/// control frames in one piece.
class outbox {
public:
  /// Appends a frame.
  void push(const frame& x);

  bool empty() const { return bytes_of_[0] + bytes_of_[1] == 0; }
  /// Number of bytes of a priority that are not yet written.
  std::size_t waiting(priority x) const { return bytes_of_[std::size_t(x)]; }

  /// Bytes to be written next. They stay the same until they are reported as
  /// written. Empty: nothing waits.
  std::span<const std::byte> front();
  void written(std::size_t bytes);

private:
  std::vector<std::byte> now_; ///< Bytes that are being written.
  std::size_t at_ = 0;
  /// Priority of the bytes that are being written.
  priority kind_ = priority::control;
  std::vector<std::byte> control_;
  std::deque<std::vector<std::byte>> bulk_;
  std::size_t bytes_of_[2] = {0, 0};
};

} // namespace troupe::net
