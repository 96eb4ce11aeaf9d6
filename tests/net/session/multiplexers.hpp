#pragma once

#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/codec/frames.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace troupe::net::testing {

using events = std::vector<switchboard::event>;

/// The multiplexers of both ends; bytes move when a test moves them.
struct both {
  /// Moves all queued bytes in pieces.
  /// @returns why the receiver's connection ended; none if it did not.
  static std::optional<switchboard::end> carry(switchboard& from,
                                               switchboard& to, events& heard,
                                               std::size_t piece = 1 << 20) {
    while (!from.out().empty()) {
      const auto all = from.out().front();
      const auto some = all.first(std::min(piece, all.size()));
      const auto over = to.take(some, heard);
      from.out().written(some.size());
      if (over)
        return over;
    }
    return {};
  }
  auto there(std::size_t piece = 1 << 20) {
    return carry(left, right, at_right, piece);
  }
  auto back() { return carry(right, left, at_left); }

  switchboard left{frame_limits{}}, right{frame_limits{}};
  events at_left, at_right;
};

inline frame letter(std::size_t size, std::uint32_t seed = 1,
                    priority how = priority::control) {
  auto x = some_frame(size, seed);
  x.priority = how;
  return x;
}

/// Channels and payloads of the received frames.
inline std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>
payloads(const events& all) {
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> found;
  for (const auto& e : all)
    if (e.heard)
      found.emplace_back(e.channel, e.heard->payload);
  return found;
}

} // namespace troupe::net::testing
