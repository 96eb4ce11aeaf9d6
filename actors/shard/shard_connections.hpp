#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"

#include <caf/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// Maximum wait for the answer of one copy. Then the request is sent again.
inline constexpr std::chrono::milliseconds max_attempt{10'000};

/// The connections of a router, for the objects that it hosts.
struct shard_connections {
  std::uint32_t shards = 1;
  /// Returns the host of a server. Null: it is not connected.
  std::function<shard_host_actor(std::uint64_t server)> find;
  std::function<std::string()> server_text; ///< Names the servers, for errors.
  /// Time after which requests fail if their shard answers nothing.
  std::chrono::milliseconds timeout{60'000};

  /// Returns the time after which a request is sent again.
  std::chrono::milliseconds max_wait() const {
    return std::min(max_attempt, timeout / 3);
  }
  /// Returns the error of requests that no copy answers.
  caf::error stalled() const {
    return caf::make_error(ec::stalled, "no copy has answered within "
                                          + std::to_string(timeout.count())
                                          + " ms" + server_text());
  }
};

} // namespace troupe
