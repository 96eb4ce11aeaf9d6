#pragma once

#include "troupe/net/codec/frame.hpp"

#include <deque>
#include <span>
#include <vector>

namespace troupe::net {

/// Frames that wait to be written, as bytes: control before bulk, and many
/// small ones in one piece.
class outbox {
public:
  /// The channel is the frame's own.
  void push(const frame& x);

  bool empty() const { return bytes_of_[0] + bytes_of_[1] == 0; }
  /// Bytes of that priority that were not written yet.
  std::size_t waiting(priority x) const { return bytes_of_[std::size_t(x)]; }

  /// What is to be written now; the same, or longer, until it has been.
  std::span<const std::byte> front();
  void written(std::size_t bytes);

private:
  std::vector<std::byte> now_; ///< Being written.
  std::size_t at_ = 0;
  priority kind_ = priority::control; ///< Of what is being written.
  std::vector<std::byte> control_;
  std::deque<std::vector<std::byte>> bulk_;
  std::size_t bytes_of_[2] = {0, 0};
};

} // namespace troupe::net
