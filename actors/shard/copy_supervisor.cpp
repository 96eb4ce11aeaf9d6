#include "troupe/actors/shard/copy_supervisor.hpp"

#include "troupe/actors/core/exception_handler.hpp"
#include "troupe/actors/core/log.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds supervision_interval{30};
constexpr std::chrono::milliseconds answer_timeout{10'000};
/// Minimum time between attempts to connect to a process that has refused to be
/// a server again, for example because it is the lost one.
constexpr std::chrono::milliseconds refused_interval{5'000};

} // namespace

void copy_supervisor_state::start(copy_supervisor_config how) {
  config = std::move(how);
  views.emplace(config.shards, config.copies);
  std::vector<std::uint64_t> names;
  for (auto& one : std::exchange(config.servers, {})) {
    names.push_back(one.server);
    known.insert(one.server);
    self->monitor(one.host);
    servers.emplace(one.server, std::move(one));
  }
  react(views->start(names), true);
}

caf::result<std::uint64_t> copy_supervisor_state::add(const host_link& x) {
  const bool is_known = x.host && known.contains(x.server);
  if (!x.host || is_known) {
    const auto problem =
      is_known ? "the process at " + x.address
                   + " is or was a server already; start it again first"
               : x.problem;
    on_failed_attempt(x.address, problem, is_known || x.is_refused);
    return caf::make_error(is_known ? ec::refused : ec::unreachable, problem);
  }
  if (lost.erase(x.address) > 0)
    log(log_level::warning, "the parameter server at " + x.address
                              + " has joined again; it gets copies");
  known.insert(x.server);
  servers.emplace(x.server, x);
  self->monitor(x.host);
  react(views->on_server(x.server), true);
  return std::uint64_t{servers.size()};
}

/// No effect if no lost server has this address.
/// @param is_refused false: no process answers there yet.
void copy_supervisor_state::on_failed_attempt(const std::string& address,
                                              const std::string& problem,
                                              bool is_refused) {
  const auto found = lost.find(address);
  if (found == lost.end())
    return;
  auto& one = found->second;
  one.is_connecting = false;
  if (!is_refused)
    return;
  one.next_attempt =
    std::max(one.next_attempt, self->clock().now() + refused_interval);
  if (!std::exchange(one.was_refused, true))
    log(log_level::warning, "cannot connect again to the parameter server at "
                              + address + ": " + problem);
}

void copy_supervisor_state::on_down(const caf::actor_addr& source) {
  const auto found = std::ranges::find_if(
    servers, [&](const auto& one) { return one.second.host == source; });
  if (found == servers.end())
    return;
  const auto ended = servers.extract(found);
  const auto& address = ended.mapped().address;
  if (config.copies > 1)
    log(log_level::warning, "the parameter server at " + address
                              + " is lost; its copies are replaced");
  ++losses;
  lacks_copies = true;
  if (config.reconnect_interval.count() > 0)
    lost[address];
  react(views->on_server_lost(ended.key()), true);
}

void copy_supervisor_state::on_interval() {
  const auto now = self->clock().now();
  for (auto& [address, one] : lost)
    if (!one.is_connecting && now >= one.next_attempt) {
      one.is_connecting = true;
      one.next_attempt = now + config.reconnect_interval;
      config.connect(address, self->address());
    }
  react(views->on_timeout());
}

copies_status copy_supervisor_state::status() const {
  return {views->is_settled(), views->in_sync(), losses};
}

void copy_supervisor_state::react(const parameter_server::views_reaction& what,
                                  bool servers_changed) {
  const bool has_news =
    what.views_changed || !what.lost_shards.empty() || servers_changed;
  if (has_news) {
    table = {table.version + 1, {}, {}};
    const auto all = views->views();
    for (std::uint32_t i = 0; i < all.size(); ++i)
      table.shards.push_back({all[i].view_id, all[i].term, all[i].previous_term,
                              all[i].primary, all[i].backups,
                              views->is_lost(i)});
    for (const auto& [server, link] : servers)
      table.servers.push_back({server, link.address});
    self->send(config.router, table);
  }
  if (has_news || what.asks_positions)
    for (const auto& [server, link] : servers)
      ask(server);
}

/// Sends the table to a server, and asks what its copies have.
void copy_supervisor_state::ask(std::uint64_t server) {
  self->request(servers.at(server).host, answer_timeout, table, views->poll())
    .then(
      [this, server](const copy_report& x) {
        const auto n = x.view_ids.size();
        if (x.terms.size() != n || x.sequences.size() != n
            || x.is_in_sync.size() != n)
          return;
        std::vector<parameter_server::copy_position> positions;
        for (std::size_t i = 0; i < n; ++i)
          positions.push_back(
            {x.view_ids[i], x.terms[i], x.sequences[i], x.is_in_sync[i] != 0});
        react(views->on_positions(server, x.poll, positions));
        if (lacks_copies && servers.size() >= config.copies
            && views->is_settled()) {
          lacks_copies = false;
          log(log_level::warning,
              "all copies of the parameter servers are in sync again");
        }
      },
      [](const caf::error&) {}); // it is asked again, or is lost
}

copy_supervisor_actor::behavior_type copy_supervisor(
  copy_supervisor_actor::stateful_pointer<copy_supervisor_state> self,
  copy_supervisor_config config) {
  install_exception_handler(self);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x.source); });
  self->state.start(std::move(config));
  self->delayed_send(self, supervision_interval, atom::wake_v);
  return {
    [self](const host_link& x) { return self->state.add(x); },
    [self](atom::info) { return self->state.table; },
    [self](atom::status) { return self->state.status(); },
    [self](atom::wake) {
      self->state.on_interval();
      self->delayed_send(self, supervision_interval, atom::wake_v);
    },
  };
}

} // namespace troupe
