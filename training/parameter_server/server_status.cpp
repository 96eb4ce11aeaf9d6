#include "troupe/training/parameter_server/server_status.hpp"

#include "troupe/actors/protocol/server_status_actor.hpp"
#include "troupe/actors/runtime/role_registry.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/actors/shard/copy_supervisor.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <caf/actor_cast.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Maximum wait for a server, and for the supervisor of its copies.
constexpr std::chrono::milliseconds answer_timeout{1000};

/// The servers. The addresses keep no actor alive.
struct known_servers {
  caf::actor_addr router;
  std::uint32_t shards = 0;
  caf::actor_addr supervisor;
  bool are_on_nodes = false; ///< Otherwise they are threads of this process.
  std::uint32_t copies = 1;
};

/// A query that waits for the servers.
struct open_query {
  caf::typed_response_promise<servers_summary> promise;
  servers_summary out;
  copy_table table;
  copies_status copies;
  std::size_t unanswered = 0;
};

std::string address_of(const copy_table& table, std::size_t shard) {
  if (shard >= table.shards.size())
    return {};
  const auto found = std::ranges::find(
    table.servers, table.shards[shard].primary, &server_address::server);
  return found == table.servers.end() ? std::string{} : found->address;
}

void finish(const known_servers& from, open_query& query) {
  auto& out = query.out;
  out.copies = from.copies;
  out.lost_servers = query.copies.losses;
  for (std::size_t i = 0; i < out.servers.size(); ++i) {
    auto& one = out.servers[i];
    if (from.are_on_nodes)
      one.address = address_of(query.table, i);
    if (from.copies == 1)
      one.in_sync = one.responds;
    else if (i < query.copies.in_sync.size())
      one.in_sync = query.copies.in_sync[i];
  }
  query.promise.deliver(std::move(out));
}

struct server_status_state {
  static inline const char* name = "server status";

  explicit server_status_state(server_status_actor::pointer self)
    : self{self} {}

  caf::result<servers_summary> query() {
    const auto one = std::make_shared<open_query>();
    one->promise = self->make_response_promise<servers_summary>();
    one->out.servers.resize(from.shards);
    one->unanswered = from.shards + std::size_t{2};
    for (std::uint32_t i = 0; i < from.shards; ++i)
      ask<shard_router_actor, shard_status>(
        one, from.router,
        [one, i](const shard_status& x) {
          one->out.servers[i].held = x;
          one->out.servers[i].responds = 1;
        },
        i, atom::status_v);
    ask<copy_supervisor_actor, copy_table>(
      one, from.supervisor, [one](const copy_table& x) { one->table = x; },
      atom::info_v);
    ask<copy_supervisor_actor, copies_status>(
      one, from.supervisor, [one](const copies_status& x) { one->copies = x; },
      atom::status_v);
    return one->promise;
  }

  /// @param address null: there is no such actor.
  template <class Actor, class Answer, class F, class... Message>
  void ask(const std::shared_ptr<open_query>& query,
           const caf::actor_addr& address, F on_answer, Message... message) {
    const auto to = caf::actor_cast<Actor>(address);
    if (!to)
      return on_answered(*query);
    self->request(to, answer_timeout, message...)
      .then(
        [this, query, on_answer](const Answer& x) {
          on_answer(x);
          on_answered(*query);
        },
        [this, query](const caf::error&) { on_answered(*query); });
  }

  void on_answered(open_query& query) const {
    if (--query.unanswered == 0)
      finish(from, query);
  }

  server_status_actor::pointer self;
  known_servers from;
};

server_status_actor::behavior_type status_of_servers(
  server_status_actor::stateful_pointer<server_status_state> self,
  known_servers from) {
  self->state.from = std::move(from);
  return {[self](atom::status) { return self->state.query(); }};
}

/// The servers that a process shows. Any thread may call the functions.
class shown_servers {
public:
  void show(known_servers servers) {
    const std::lock_guard hold{lock_};
    servers_ = std::move(servers);
  }
  known_servers servers() const {
    const std::lock_guard hold{lock_};
    return servers_;
  }

private:
  mutable std::mutex lock_;
  known_servers servers_;
};

/// Returns the servers that a runtime shows, and whether this is its first
/// call. The role keeps them.
std::pair<std::shared_ptr<shown_servers>, bool>
shown_servers_of(const runtime& actors) {
  static std::mutex lock; // guards `all`
  static std::map<std::uint64_t, std::weak_ptr<shown_servers>> all;
  const std::lock_guard hold{lock};
  std::erase_if(all, [](const auto& x) { return x.second.expired(); });
  if (const auto found = all[actors.incarnation()].lock())
    return {found, false};
  auto made = std::make_shared<shown_servers>();
  all[actors.incarnation()] = made;
  return {std::move(made), true};
}

} // namespace

void register_server_status(const parameter_server_strategy& strategy) {
  const auto& servers = *strategy.servers();
  known_servers from{servers.router().address(), servers.options().servers,
                     servers.supervisor(), !servers.options().nodes.empty(),
                     servers.options().copies};
  const auto [shown, is_new] = shown_servers_of(servers.local_runtime());
  shown->show(std::move(from));
  if (is_new)
    register_role<server_status_actor>(
      servers.local_runtime(), server_status_role,
      [shown = shown](caf::actor_system& system) -> server_status_actor {
        return system.spawn(status_of_servers, shown->servers());
      });
}

} // namespace troupe
