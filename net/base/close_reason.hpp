#pragma once

#include <cstdint>

namespace troupe::net {

/// Reason why a channel, connection or lane ended. Callers react differently to
/// each reason.
enum class close_reason : std::uint8_t {
  /// The peer closed the channel, connection or lane, or the peer process has
  /// terminated.
  closed,
  /// No byte was received within the heartbeat timeout; the peer may be alive.
  timed_out,
  protocol_error, ///< The received bytes are not a valid frame.
  /// The stream of a lane has failed, or a checksum is wrong: bytes have
  /// changed
  /// on their way. The peer may be alive.
  corrupted,
};

} // namespace troupe::net
