#pragma once

#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/net/session/connection.hpp"

#include <chrono>

namespace troupe {

/// A connection that asks for roles.
struct guest_ref {
  std::shared_ptr<net::connection> it;
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::guest_ref)

namespace troupe {

struct node_settings {
  std::string name = "node";
  std::uint64_t incarnation = 0;
  std::shared_ptr<const role_registry> roles{};
  std::weak_ptr<door> at{};         ///< Where it is dialed; for its roles.
  std::size_t guests = 64;          ///< Connections at once, at most.
  std::size_t roles_per_guest = 64; ///< At once, at most.
  /// Longest that a role may take for an answer.
  std::chrono::milliseconds patience{600'000};
  /// What a role is given to end in peace once its owner is gone.
  std::chrono::milliseconds farewell{5000};
  std::function<void()> stopped{}; ///< Somebody told it to stop.
};

/// The node's own view of itself.
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

  struct guest {
    std::shared_ptr<net::connection> via;
    caf::actor door; ///< Its gateway to the node.
    std::uint32_t channels = desk_channel;
    std::size_t roles = 0; ///< That have not ended.
  };
  struct role {
    caf::actor it;
    caf::actor_addr guest; ///< Its door.
    std::string name;
  };
  struct gate {
    caf::actor it;
    caf::actor_addr role;
  };

  node_inside::pointer self;
  node_settings settings;
  caf::actor_clock::time_point since{};
  std::map<caf::actor_addr, guest> guests; ///< By door.
  std::map<caf::actor_addr, role> roles;
  std::map<caf::actor_addr, gate> gates;

private:
  caf::expected<caf::actor> make(const spawn_order& x) const;
  void end_role(const caf::actor& it);
};

// -- behavior -----------------------------------------------------------------

/// Serves the connections that it is told of: spawns what they ask for, and
/// ends it when they end.
node_inside::behavior_type node(node_inside::stateful_pointer<node_state> self,
                                node_settings settings);

} // namespace troupe
