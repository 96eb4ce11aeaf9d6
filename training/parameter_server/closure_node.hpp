#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

/// Limits of what a node takes from `closure_node_arguments`.
inline constexpr std::uint32_t max_copies = 64, max_servers = 4096;

/// Arguments with which a coordinator spawns a worker on a node.
struct closure_node_arguments {
  std::string job;                  ///< Name of the servers on their nodes.
  std::vector<std::string> servers; ///< Addresses of their nodes.
  std::uint32_t number = 0;         ///< Of the worker.
  std::int32_t threads = 1;         ///< Of the ops of a closure.
  std::uint32_t interleaved = 1;    ///< Closures that it executes at a time.
  std::uint64_t seed = 0;           ///< Of the random ops in closures.
  std::uint64_t timeout_ms = 0;     ///< Of a request to a server.
  std::string arguments;            ///< Of the factory of the closures.
  std::uint32_t copies = 1;         ///< Of each server.
  std::uint32_t shards = 0;         ///< Number of servers.
  auto fields() {
    return std::tie(job, servers, number, threads, interleaved, seed,
                    timeout_ms, arguments, copies, shards);
  }
};

/// Returns the name of the role of registered closures.
inline std::string closure_role(const std::string& closures) {
  return "closures/" + closures;
}

} // namespace troupe
