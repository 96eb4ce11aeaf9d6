#pragma once

#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/session/connection_options.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

class runtime;

struct node_server_options {
  /// Address to listen on, "host:port". Port 0: any free port.
  std::string listen = "127.0.0.1:0";
  /// Last port to try; the first is the port of `listen`. Zero: no other port.
  std::uint16_t last_port = 0;
  /// Address that other processes connect to. Empty: the address of `listen`.
  std::string advertise{};
  net::connection_options connection{};
  std::string name = "node"; ///< Name of the node in its status.
  /// Address "host:port" of a client that listens for spares
  /// (`remote_strategy_options::listen`). The node announces itself there, so
  /// all roles must be registered before. Empty: to no client.
  std::string join{};
  /// Maximum time without a connection to the client of `join`, until the
  /// client uses or releases the node. 1 ms to 7 days.
  std::chrono::milliseconds join_timeout{300'000};
  /// Receives a sentence for each event of `join`, on a thread of the node.
  /// Null: the sentences are logged as `info`.
  std::function<void(const std::string&)> on_join_event{};
  std::size_t max_clients = 64; ///< Maximum number of open connections.
  std::size_t max_roles_per_client = 64; ///< Maximum number of running roles of
                                         ///< one connection.
  /// Receives the reasons why connections were rejected or closed. Also
  /// receives a warning if the node listens beyond loopback with a secret but
  /// without TLS. Null: `log_of_connections`, which prints warnings to standard
  /// error. To log nothing, pass a function without effect.
  net::log_function log{};
};

/// Makes this process a node: other processes may spawn the roles that are
/// registered in its runtime (role_registry.hpp). The spawned roles end with
/// the node.
class node_server {
public:
  /// Listens and serves until destruction.
  /// @pre the runtime outlives the node.
  /// @errors throws std::invalid_argument for an address that is malformed, or
  ///         beyond loopback without credentials, and for `join` if no process
  ///         can connect to the node's address; std::runtime_error if the
  ///         node cannot listen; what `net::credentials_from_environment`
  ///         throws.
  explicit node_server(runtime& local_runtime,
                       const node_server_options& options = {});
  ~node_server();
  node_server(const node_server&) = delete;
  node_server& operator=(const node_server&) = delete;

  /// Returns the address that other processes connect to, "host:port".
  const std::string& address() const;

  /// Waits until a client stops the node or the timeout has passed.
  /// @returns true if a client has stopped the node.
  /// @errors throws `job_error` if the client of `join` refuses the node
  ///         (refused, or protocol) or does not answer within `join_timeout`
  ///         (unreachable). The node serves until its destruction nevertheless.
  bool wait_for_stop(std::chrono::milliseconds timeout);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
