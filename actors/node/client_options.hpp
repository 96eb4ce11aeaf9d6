#pragma once

#include "troupe/net/session/connection_options.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace troupe {

/// Options of a connection to another process.
struct client_options {
  net::connection_options connection{};
  std::string name = "client"; ///< Name of this process in logs of the peer.
  /// Timeout of the connection attempt, and of requests to the node itself.
  std::chrono::milliseconds connect_timeout{5000};
  /// Timeout of a request to a role.
  std::chrono::milliseconds request_timeout{30'000};
  /// Maximum number of requests to one role that wait for a response.
  std::size_t window = 256;
  /// True: large tensors pass through shared memory if the peer is on this host
  /// and both processes can set it up. Otherwise they pass over a stream.
  bool shared_memory = true;
};

} // namespace troupe
