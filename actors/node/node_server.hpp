#pragma once

#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/security/credentials.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

class runtime;

struct node_server_options {
  /// "host:port"; port 0: one that is free.
  std::string listen = "127.0.0.1:0";
  std::uint16_t last_port = 0; ///< Above listen's: tries that range.
  std::string advertise{};     ///< What others dial, if it differs.
  /// Not given: `net::credentials_from_environment`. If these are `none()`:
  /// loopback only.
  std::optional<net::credentials> credentials{};
  std::string name = "node";        ///< For people.
  std::size_t guests = 64;          ///< Connections at once, at most.
  std::size_t roles_per_guest = 64; ///< At once, at most.
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence before a connection is given up.
  std::chrono::milliseconds suspect{1000};
  /// Longest that a handshake or a farewell may take.
  std::chrono::milliseconds patience{5000};
  /// Hears why connections were refused or closed, and a warning if there is
  /// only a secret beyond loopback. Null: nobody does.
  net::log_function log{};
};

/// Makes this process a node: others may spawn here the roles that the runtime
/// knows (role_registry.hpp). The roles end with it.
class node_server {
public:
  /// @pre the runtime outlives it.
  /// @errors throws std::invalid_argument for an address that is none, or is
  ///         beyond loopback without credentials; std::runtime_error when it
  ///         cannot listen; what `net::credentials_from_environment` throws.
  explicit node_server(runtime& in, const node_server_options& options = {});
  ~node_server();
  node_server(const node_server&) = delete;
  node_server& operator=(const node_server&) = delete;

  /// What others dial: "host:port".
  const std::string& address() const;

  /// Waits until somebody tells the node to stop. @returns whether he did.
  bool wait_for_stop(std::chrono::milliseconds patience);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
