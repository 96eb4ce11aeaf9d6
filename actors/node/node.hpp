#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/connection_lane.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/session/connection.hpp"

#include <chrono>

namespace troupe {

/// Tells a node or a status service that it must serve a new client connection.
struct client_ref {
  std::shared_ptr<net::connection> connection;
  /// Lane for the large tensors of the connection. Null: the connection has
  /// none.
  std::shared_ptr<connection_lane> lane{};
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::client_ref)

namespace troupe {

struct node_settings {
  std::string name = "node";
  std::uint64_t incarnation = 0; ///< Incarnation of the process.
  std::shared_ptr<const role_registry> roles{};
  /// Router that accepts the node's connections. Spawned roles may use the
  /// router.
  std::weak_ptr<service_router> router{};
  std::size_t max_clients = 64; ///< Maximum number of open connections.
  std::size_t max_roles_per_client = 64; ///< Maximum number of running roles of
                                         ///< one connection.
  /// Timeout of a role's response to a request.
  std::chrono::milliseconds request_timeout{600'000};
  /// Time that a role gets to terminate before it is killed. The node asks a
  /// role to terminate when the client has released the role or the connection
  /// has closed.
  std::chrono::milliseconds shutdown_timeout{5000};
  /// Called when a client has stopped the node. Null: no call.
  std::function<void()> on_stop{};
};

/// The node's interface and its private message: a new connection to serve.
using node_internal_actor = node_actor::extend<caf::reacts_to<client_ref>>;

// -- state --------------------------------------------------------------------

struct node_state {
  static inline const char* name = "node";

  explicit node_state(node_internal_actor::pointer self) : self{self} {}
  ~node_state();

  void accept(const client_ref& ref);
  caf::result<std::uint32_t> spawn(const spawn_request& request);
  node_info info() const;
  void stop();
  void on_down(const caf::actor_addr& source);

  /// A client connection.
  struct client {
    std::shared_ptr<net::connection> connection;
    std::shared_ptr<connection_lane> lane; ///< Null: there is none.
    caf::actor skeleton; ///< Skeleton of the node on this connection.
    /// Number of the last channel that was opened.
    std::uint32_t last_channel = root_channel;
    std::size_t roles = 0; ///< Number of roles that have not ended.
  };
  /// A spawned role.
  struct role {
    caf::actor handle;
    /// The node's skeleton on the connection whose client spawned the role.
    caf::actor_addr client;
    std::string name; ///< Registered name of the role.
  };
  /// The skeleton of a spawned role.
  struct role_skeleton {
    caf::actor handle;
    caf::actor_addr role; ///< The role that the skeleton serves.
  };

  node_internal_actor::pointer self;
  node_settings settings;
  caf::actor_clock::time_point started{};
  std::map<caf::actor_addr, client> clients; ///< Keys: skeletons of the node.
  std::map<caf::actor_addr, role> roles;     ///< Keys: the roles.
  /// Keys: skeletons of the roles.
  std::map<caf::actor_addr, role_skeleton> role_skeletons;

private:
  caf::expected<caf::actor> make_role(const spawn_request& request) const;
  void end_role(const caf::actor& handle);
};

// -- behavior -----------------------------------------------------------------

/// A node. It serves the connections that it receives. It spawns the roles that
/// a client requests and ends them when the client's connection closes.
node_internal_actor::behavior_type
node(node_internal_actor::stateful_pointer<node_state> self,
     node_settings settings);

} // namespace troupe
