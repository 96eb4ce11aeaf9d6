#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

/// The connections of a router, for the objects that it hosts.
struct shard_connections {
  std::uint32_t shards = 1;
  /// Returns the host of a server. Null: it is not connected.
  std::function<shard_host_actor(std::uint64_t server)> find;
  std::function<std::string()> place; ///< Names the servers, for an error.
  /// Time after which requests fail if their shard answers nothing.
  std::chrono::milliseconds timeout{60'000};
};

} // namespace troupe
