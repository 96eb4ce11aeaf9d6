#pragma once

#include <cstdint>
#include <string>

namespace troupe::net {

/// Describes what is wrong in received bytes, and where.
struct decode_error {
  /// Offset of the first wrong byte from the start of the stream or payload.
  std::uint64_t offset = 0;
  std::string reason; ///< Text without the offset and without a full stop.

  friend bool operator==(const decode_error&, const decode_error&) = default;
};

/// Formats as "byte 7: version 9, but version 1 is expected".
inline std::string to_string(const decode_error& error) {
  return "byte " + std::to_string(error.offset) + ": " + error.reason;
}

} // namespace troupe::net
