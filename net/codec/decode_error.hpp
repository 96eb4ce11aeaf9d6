#pragma once

#include <cstdint>
#include <string>

namespace troupe::net {

/// Error in received bytes, and its position.
struct decode_error {
  std::uint64_t offset = 0; ///< Offset of the byte in the stream or payload.
  std::string reason; ///< Reason, without the position and without a full stop.

  friend bool operator==(const decode_error&, const decode_error&) = default;
};

/// "byte 7: version 9, but version 1 is expected"
inline std::string to_string(const decode_error& error) {
  return "byte " + std::to_string(error.offset) + ": " + error.reason;
}

} // namespace troupe::net
