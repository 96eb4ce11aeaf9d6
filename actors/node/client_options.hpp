#pragma once

#include "troupe/net/security/credentials.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace troupe {

/// How one speaks to another process.
struct remote_options {
  /// As the other side's; not given: `net::credentials_from_environment`.
  std::optional<net::credentials> credentials{};
  std::string name = "client"; ///< For people.
  /// Longest that finding it, or an answer of its own, may take.
  std::chrono::milliseconds patience{5000};
  /// Longest that a request to a role may take.
  std::chrono::milliseconds answers{30'000};
  /// Requests that may be open at once to one role.
  std::size_t window = 256;
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence before it counts as unreachable.
  std::chrono::milliseconds suspect{1000};
};

} // namespace troupe
