#pragma once

#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/shard/host_connector.hpp"
#include "troupe/actors/shard/shard_router.hpp"
#include "troupe/strategies/parameter_server/copy_views.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_clock.hpp>
#include <caf/result.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

/// How many copies of the shards are in sync, as far as the servers have said.
struct copies_status {
  bool is_settled = false;            ///< `copy_views::is_settled`
  std::vector<std::uint32_t> in_sync; ///< `copy_views::in_sync`
  std::uint64_t losses = 0;           ///< Of servers, so far.
  auto fields() { return std::tie(is_settled, in_sync, losses); }
};

/// The messages that a copy supervisor receives.
using copy_supervisor_actor = caf::typed_actor<
  // Adds a server. Returns the number of servers. `ec::refused`: its process is
  // or was one, and may have lost its copies. `ec::unreachable`: an attempt to
  // connect again to a lost server has failed.
  caf::replies_to<host_link>::with<std::uint64_t>,
  // Returns the copies.
  caf::replies_to<atom::info>::with<copy_table>,
  // Returns how many copies are in sync.
  caf::replies_to<atom::status>::with<copies_status>,
  // An interval has passed.
  caf::reacts_to<atom::wake>>;

/// Spawn arguments of a copy supervisor.
struct copy_supervisor_config {
  std::uint32_t shards = 1;
  std::uint32_t copies = 1;       ///< Of each shard.
  std::vector<host_link> servers; ///< At least one.
  shard_router_actor router;      ///< Of this process: learns all tables.
  /// Zero: lost servers are not connected again. Else the time between attempts
  /// to connect to a process at the address of a lost one.
  std::chrono::milliseconds reconnect_interval{0};
  host_connector connect{}; ///< Makes the copies in that process.
};

/// State of a copy supervisor. It hosts `parameter_server::copy_views`.
struct copy_supervisor_state {
  static inline const char* name = "copy supervisor";

  explicit copy_supervisor_state(copy_supervisor_actor::pointer self)
    : self{self} {}

  void start(copy_supervisor_config config);
  caf::result<std::uint64_t> add(const host_link& x);
  void on_failed_attempt(const std::string& address, const std::string& problem,
                         bool is_refused);
  void on_down(const caf::actor_addr& source);
  void on_interval();
  void react(const parameter_server::views_reaction& what,
             bool servers_changed = false);
  void ask(std::uint64_t server);
  copies_status status() const;

  /// A server that was lost, and to which this actor connects again.
  struct lost_server {
    bool is_connecting = false;
    caf::actor_clock::time_point next_attempt{};
    bool was_refused = false; ///< By the process, in an attempt before.
  };

  copy_supervisor_actor::pointer self;
  copy_supervisor_config config;
  std::optional<parameter_server::copy_views> views;
  std::map<std::uint64_t, host_link> servers; ///< That live.
  std::set<std::uint64_t> known;              ///< All that were ever added.
  std::map<std::string, lost_server> lost;    ///< By address.
  std::uint64_t losses = 0;                   ///< Of servers, so far.
  bool lacks_copies = false; ///< Since a loss, until all are in sync again.
  copy_table table;
};

/// Watches the servers that have the copies of shards, decides their views, and
/// tells them to all.
copy_supervisor_actor::behavior_type copy_supervisor(
  copy_supervisor_actor::stateful_pointer<copy_supervisor_state> self,
  copy_supervisor_config config);

} // namespace troupe
