#pragma once

#include <cstdint>

namespace troupe::net {

/// Reason why a channel, connection or lane ended. Callers react differently to
/// each reason.
enum class close_reason : std::uint8_t {
  closed, ///< The peer has closed it, or the peer process has terminated.
  /// No byte was received within the heartbeat timeout; the peer may be alive.
  timed_out,
  protocol_error, ///< The received bytes are not a valid frame.
};

} // namespace troupe::net
