#pragma once

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/client_options.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/remoting/role_fingerprint.hpp"
#include "troupe/actors/runtime/runtime.hpp"

namespace troupe {

/// A node, as a program sees it that has roles spawned there. They are its
/// own: they end with it, and with this process. What is spoken to over it
/// blocks, by a deadline: for threads that are no actors. Safe to use from any
/// of them.
class remote_node {
public:
  /// @param where "host:port"
  /// @pre   the runtime outlives it.
  /// @errors throws std::invalid_argument for an address that is none; what
  ///         `net::credentials_from_environment` throws, if asked; `failure`:
  ///         refused by the node, with its sentence; peer_lost if nobody
  ///         listens there; unreachable if nothing answers.
  remote_node(runtime& in, const std::string& where,
              const remote_options& options = {});
  ~remote_node();
  remote_node(const remote_node&) = delete;
  remote_node& operator=(const remote_node&) = delete;

  /// Spawns a role by its registered name; the arguments' types must be those
  /// of the registration. The handle is used like any other: requests need
  /// deadlines, monitors hear
  ///   peer_lost     the role or its node is known to be gone
  ///   unreachable   nothing is heard of the node; it may live
  /// and the role ends when the handle's last copy is gone.
  /// @errors throws `failure` as node_actor says, or as the constructor.
  template <class Handle, class... Args>
  Handle spawn(const std::string& role, const Args&... args) {
    auto over = order(order_of<Handle>(role, args...));
    Handle it =
      system().spawn(proxy<Handle>, std::move(over), options_for_roles());
    forget_logger();
    return it;
  }

  /// @errors throws `failure`.
  node_info who();

  /// Tells the node to end all of its roles, also those of others, and serve
  /// no more; does not wait for it.
  void stop();

private:
  std::shared_ptr<net::link> order(const spawn_order& x);
  caf::actor_system& system();
  proxy_options options_for_roles() const;

  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
