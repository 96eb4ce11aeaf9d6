#pragma once

#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Nodes of this process with copies of servers. Nodes and their clients
// communicate over real sockets.

namespace troupe::test {

inline client_options without_secret() {
  client_options out{.window = 4096};
  out.connection.credentials = net::credentials{};
  return out;
}

/// A node that can have copies of servers.
struct server_node {
  /// @param address of a node that has ended. Empty: a new one.
  explicit server_node(const std::string& address = {}) {
    register_parameter_server(actors, without_secret());
    node_server_options options{
      .connection = {.credentials = net::credentials{}}};
    if (!address.empty())
      options.listen = address;
    server = std::make_unique<node_server>(actors, options);
  }
  std::string address() const { return server->address(); }
  runtime actors;
  std::unique_ptr<node_server> server;
};

using server_nodes = std::vector<std::unique_ptr<server_node>>;

inline server_nodes make_nodes(std::size_t count) {
  server_nodes out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::make_unique<server_node>());
  return out;
}

/// Options of servers on nodes.
inline parameter_server_options on(const server_nodes& all,
                                   std::uint32_t copies) {
  parameter_server_options out{.workers = 2, .copies = copies};
  for (const auto& one : all)
    out.nodes.push_back(one->server->address());
  out.node_connection = without_secret();
  return out;
}

} // namespace troupe::test
