#pragma once

#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/codec/frames.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace troupe::net::testing {

using events = std::vector<multiplexer::event>;

/// The multiplexers of both ends of a connection. A test moves the bytes
/// between them.
struct multiplexer_pair {
  /// Moves all bytes that the sender has queued, in pieces of at most `piece`
  /// bytes.
  /// @returns why the receiver's connection has ended. None: it has not ended.
  static std::optional<multiplexer::closed_state>
  transfer(multiplexer& sender, multiplexer& receiver, events& received,
           std::size_t piece = 1 << 20) {
    while (!sender.output().empty()) {
      const auto queued = sender.output().front();
      const auto piece_bytes = queued.first(std::min(piece, queued.size()));
      const auto end_state = receiver.receive(piece_bytes, received);
      sender.output().written(piece_bytes.size());
      if (end_state)
        return end_state;
    }
    return {};
  }
  auto transfer_right(std::size_t piece = 1 << 20) {
    return transfer(left, right, right_events, piece);
  }
  auto transfer_left() { return transfer(right, left, left_events); }

  multiplexer left{frame_limits{}}, right{frame_limits{}};
  events left_events, right_events;
};

inline frame sample_frame(std::size_t size, std::uint32_t seed = 1,
                          priority frame_priority = priority::control) {
  auto x = some_frame(size, seed);
  x.priority = frame_priority;
  return x;
}

/// Returns the channel and the payload of each received frame.
inline std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>
payloads(const events& all) {
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> found;
  for (const auto& e : all)
    if (e.received)
      found.emplace_back(e.channel, e.received->payload);
  return found;
}

} // namespace troupe::net::testing
