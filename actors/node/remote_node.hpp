#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/remoting/role_fingerprint.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <chrono>

namespace troupe {

/// A client of a node. It owns the roles that it spawns on the node: they end
/// when the client is destroyed or this process ends. The member functions
/// block for at most a timeout, so only threads that are not actors may call
/// them. Thread-safe.
class remote_node {
public:
  /// Connects to a node.
  /// @param address "host:port"
  /// @pre the runtime outlives the client.
  /// @errors throws std::invalid_argument for a malformed address; what
  ///         `net::credentials_from_environment` throws, if the options give no
  ///         credentials; `job_error`: refused with the node's reason;
  ///         peer_lost if no process listens at the address; unreachable if no
  ///         response arrives in time.
  remote_node(runtime& local_runtime, const std::string& address,
              const client_options& options = {});
  ~remote_node();
  remote_node(const remote_node&) = delete;
  remote_node& operator=(const remote_node&) = delete;

  /// Spawns a role by its registered name. The types of the arguments must be
  /// those of the registration. The handle is used like that of a local actor:
  /// requests need timeouts, and actors that monitor the role receive
  ///   peer_lost     the role failed, or its node is known to be dead
  ///   unreachable   the node is silent; it may be alive
  /// The role ends when the last copy of the handle is destroyed.
  /// @errors throws `job_error` with the codes that node_actor.hpp lists, or
  ///         peer_lost or unreachable if the connection is lost.
  template <class Handle, class... Args>
  Handle spawn(const std::string& role, const Args&... args) {
    auto spawned = request_spawn(make_spawn_request<Handle>(role, args...));
    auto handle = spawn_proxy<Handle>(system(), std::move(spawned.channel),
                                      spawned.options);
    release_caf_logger();
    return handle;
  }

  /// Returns the incarnation of the node's process (`runtime::incarnation`).
  std::uint64_t incarnation() const;

  /// Asks the node for its name, roles, devices and load.
  /// @errors throws `job_error`.
  node_info info();

  /// Tells the node to stop serving and to end all roles, also those of other
  /// clients. Does not wait until the node has stopped.
  void stop();

  /// The same, and waits until the node has closed the connection.
  /// @returns false if it has not after the timeout.
  bool stop_and_wait(std::chrono::milliseconds timeout);

private:
  /// What the proxy of a spawned role needs.
  struct spawned_role {
    std::shared_ptr<net::channel> channel;
    proxy_options options;
  };
  spawned_role request_spawn(const spawn_request& request);
  caf::actor_system& system();

  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
