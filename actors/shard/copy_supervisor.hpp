#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/shard/shard_router.hpp"
#include "troupe/strategies/parameter_server/copy_views.hpp"

#include <caf/actor_addr.hpp>
#include <caf/result.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// The messages that a copy supervisor receives.
using copy_supervisor_actor = caf::typed_actor<
  // Adds a server. Returns the number of servers. `ec::refused`: its process is
  // or was one, and may have lost its copies.
  caf::replies_to<host_link>::with<std::uint64_t>,
  // Returns the copies.
  caf::replies_to<atom::info>::with<copy_table>,
  // Returns true if all copies are in sync.
  caf::replies_to<atom::status>::with<bool>,
  // An interval has passed.
  caf::reacts_to<atom::wake>>;

/// Spawn arguments of a copy supervisor.
struct copy_supervisor_config {
  std::uint32_t shards = 1;
  std::uint32_t copies = 1;       ///< Of each shard.
  std::vector<host_link> servers; ///< At least one.
  shard_router_actor router;      ///< Of this process: learns all tables.
};

/// State of a copy supervisor. It hosts `parameter_server::copy_views`.
struct copy_supervisor_state {
  static inline const char* name = "copy supervisor";

  explicit copy_supervisor_state(copy_supervisor_actor::pointer self)
    : self{self} {}

  void start(copy_supervisor_config config);
  caf::result<std::uint64_t> add(const host_link& x);
  void on_down(const caf::actor_addr& source);
  void react(const parameter_server::views_reaction& what,
             bool servers_changed = false);
  void ask(std::uint64_t server);

  copy_supervisor_actor::pointer self;
  copy_supervisor_config config;
  std::optional<parameter_server::copy_views> views;
  std::map<std::uint64_t, host_link> servers; ///< That live.
  std::set<std::uint64_t> known;              ///< All that were ever added.
  copy_table table;
};

/// Watches the servers that have the copies of shards, decides their views, and
/// tells them to all.
copy_supervisor_actor::behavior_type copy_supervisor(
  copy_supervisor_actor::stateful_pointer<copy_supervisor_state> self,
  copy_supervisor_config config);

} // namespace troupe
