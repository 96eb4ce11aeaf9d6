#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/session/connection.hpp"

#include <chrono>

namespace troupe {

/// New connection of a client, as a message to the actor that serves it.
struct guest_ref {
  std::shared_ptr<net::connection> it;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::guest_ref)

namespace troupe {

struct node_settings {
  std::string name = "node";
  std::uint64_t incarnation = 0; ///< Incarnation of the process.
  std::shared_ptr<const role_registry> roles{};
  /// Router that accepts the node's connections; spawned roles may use it.
  std::weak_ptr<door> at{};
  std::size_t guests = 64;          ///< Maximum number of connections at once.
  std::size_t roles_per_guest = 64; ///< Maximum number of running roles of one
                                    ///< connection.
  /// Timeout of a role's response to a request.
  std::chrono::milliseconds patience{600'000};
  /// Time that a role gets to shut down before it is killed, once its handle is
  /// gone or its connection has closed.
  std::chrono::milliseconds farewell{5000};
  /// Called when a client has told the node to stop. Null: no call.
  std::function<void()> stopped{};
};

/// Interface of the node with its private message: a new connection to serve.
using node_inside = node_actor::extend<caf::reacts_to<guest_ref>>;

// -- state --------------------------------------------------------------------

struct node_state {
  static inline const char* name = "node";

  explicit node_state(node_inside::pointer self) : self{self} {}
  ~node_state();

  void welcome(const guest_ref& x);
  caf::result<std::uint32_t> spawn(const spawn_order& x);
  node_info info() const;
  void stop();
  void on_down(const caf::actor_addr& who);

  /// Client connection.
  struct guest {
    std::shared_ptr<net::connection> via;
    caf::actor door; ///< Skeleton of the node on this connection.
    std::uint32_t channels = desk_channel; ///< Highest channel in use so far.
    std::size_t roles = 0; ///< Number of its roles that have not ended.
  };
  /// Spawned role.
  struct role {
    caf::actor it;
    caf::actor_addr guest; ///< Node skeleton of the connection that owns it.
    std::string name;      ///< Registered name.
  };
  /// Skeleton of a spawned role.
  struct gate {
    caf::actor it;
    caf::actor_addr role; ///< The role that it serves.
  };

  node_inside::pointer self;
  node_settings settings;
  caf::actor_clock::time_point since{};
  std::map<caf::actor_addr, guest> guests; ///< By the skeleton of the node.
  std::map<caf::actor_addr, role> roles;   ///< By the role.
  std::map<caf::actor_addr, gate> gates;   ///< By the skeleton of the role.

private:
  caf::expected<caf::actor> make(const spawn_order& x) const;
  void end_role(const caf::actor& it);
};

// -- behavior -----------------------------------------------------------------

/// NODE: serves the connections that it receives. It spawns the roles that
/// their clients request and ends them when the connection closes.
node_inside::behavior_type node(node_inside::stateful_pointer<node_state> self,
                                node_settings settings);

} // namespace troupe
