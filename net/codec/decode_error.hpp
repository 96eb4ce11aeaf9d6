#pragma once

#include <cstdint>
#include <string>

namespace troupe::net {

/// Error in received bytes, and its position.
struct malformed {
  std::uint64_t at = 0; ///< Offset of the byte in the stream or payload.
  std::string why; ///< Reason, without the position and without a full stop.

  friend bool operator==(const malformed&, const malformed&) = default;
};

/// "byte 7: version 9, but version 1 is expected"
inline std::string to_string(const malformed& x) {
  return "byte " + std::to_string(x.at) + ": " + x.why;
}

} // namespace troupe::net
