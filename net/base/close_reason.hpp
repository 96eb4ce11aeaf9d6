#pragma once

#include <cstdint>

namespace troupe::net {

/// Reason why a channel closed. The reactions differ.
enum class ending : std::uint8_t {
  dead, ///< The peer process is known to have terminated.
  /// Nothing was received within the heartbeat timeout; the peer may be alive.
  silent,
  broken, ///< The received bytes are not a valid frame.
};

} // namespace troupe::net
