#pragma once

#include "troupe/net/codec/frame_decoder.hpp"

#include <random>
#include <stdexcept>

namespace troupe::net::testing {

inline frame some_frame(std::size_t size, std::uint32_t seed = 1) {
  std::mt19937 random{seed};
  frame result{frame_kind(1 + random() % 5),
               priority(random() % 2),
               (std::uint64_t{random()} << 32) + random(),
               (std::uint64_t{random()} << 32) + random(),
               std::vector<std::byte>(size),
               std::uint32_t(random())};
  for (auto& b : result.payload)
    b = std::byte(random());
  return result;
}

/// Frames that were decoded from a byte stream, and the error that ended
/// decoding.
struct decoded {
  std::vector<frame> frames;
  std::optional<decode_error> error;
};

/// Decodes `bytes`, of which the decoder gets at most `piece` at a time.
inline decoded decode_all(std::span<const std::byte> bytes, std::size_t piece,
                          const frame_limits& limits = {}) {
  frame_decoder decoder{limits};
  decoded result;
  while (!bytes.empty()) {
    auto some = bytes.first(std::min(piece, bytes.size()));
    bytes = bytes.subspan(some.size());
    while (!some.empty()) {
      auto x = decoder.next(some);
      if (auto* whole = std::get_if<frame>(&x))
        result.frames.push_back(std::move(*whole));
      if (auto* bad = std::get_if<decode_error>(&x)) {
        result.error = *bad;
        return result;
      }
    }
  }
  result.error = decoder.finish();
  return result;
}

} // namespace troupe::net::testing
