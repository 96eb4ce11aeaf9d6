#pragma once

#include <cstdint>
#include <string>

namespace troupe::net {

/// What is wrong with bytes that came from somewhere else, and where.
struct malformed {
  std::uint64_t at = 0; ///< Byte of the stream, or of the payload.
  std::string why;      ///< Without the place; no full stop.

  friend bool operator==(const malformed&, const malformed&) = default;
};

/// "byte 7: version 9, but 1 is spoken here"
inline std::string to_string(const malformed& x) {
  return "byte " + std::to_string(x.at) + ": " + x.why;
}

} // namespace troupe::net
