#pragma once

#include "troupe/net/security/credentials.hpp"

#include <chrono>
#include <optional>

namespace troupe::net {

/// How the two processes of a connection authenticate each other, and when one
/// considers the other unreachable. Both processes should use equal values.
struct connection_options {
  /// Credentials that match those of the peers. None:
  /// `credentials_from_environment`. Empty credentials: only loopback addresses
  /// are allowed.
  std::optional<troupe::net::credentials> credentials{};
  /// Time between two heartbeats that this process sends. At least 1 ms.
  std::chrono::milliseconds heartbeat_interval{100};
  /// A peer that sends nothing for this time is considered unreachable, and its
  /// connection is closed. Longer than the heartbeat interval.
  std::chrono::milliseconds heartbeat_timeout{1000};
  /// Maximum duration of a handshake, and of the close of a connection.
  std::chrono::milliseconds handshake_timeout{5000};
};

/// Returns the credentials of the options, or else those of the environment.
/// @errors throws as `credentials_from_environment`.
inline credentials credentials_of(const connection_options& options) {
  return options.credentials ? *options.credentials
                             : credentials_from_environment();
}

} // namespace troupe::net
