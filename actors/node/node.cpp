#include "troupe/actors/node/node.hpp"

#include "troupe/actors/core/version.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/tensors/device.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <cstdlib>
#include <thread>

namespace troupe {

namespace {

std::string quoted(const std::string& x) {
  return "\"" + x.substr(0, 64) + "\"";
}

} // namespace

node_state::~node_state() {
  // Connections close first; else clients would be told that a role ended.
  for (auto& [addr, x] : guests)
    x.via->close("the node ended");
  for (auto& [addr, x] : roles)
    end_role(x.it);
}

void node_state::welcome(const guest_ref& x) {
  if (guests.size() >= settings.guests)
    return x.it->close("the node serves " + std::to_string(guests.size())
                       + " connections already");
  auto door = caf::actor_cast<caf::actor>(
    self->spawn(gateway<node_actor>, node_actor{self}, x.it->open(desk_channel),
                gateway_options{.patience = settings.patience}));
  self->monitor(door);
  guests.emplace(door.address(), guest{x.it, door});
}

caf::expected<caf::actor> node_state::make(const spawn_order& x) const {
  const auto found = settings.roles->find(x.role);
  if (!found)
    return caf::make_error(ec::refused,
                           "this node has no role " + quoted(x.role)
                             + "; it has: " + listed(settings.roles->names()));
  if (found->form.arguments != x.form.arguments)
    return caf::make_error(
      ec::invalid, "the role " + quoted(x.role) + " is spawned with "
                     + found->arguments + " here; the request has other types");
  if (found->form != x.form)
    return caf::make_error(
      ec::invalid, "the role " + quoted(x.role)
                     + " has other messages here; run the same version of "
                       "the program on both sides");
  net::reader from{std::as_bytes(std::span{x.arguments})};
  try {
    return found->make({self->system(), settings.at}, from);
  } catch (const std::exception& e) {
    return caf::make_error(ec::refused, "the role " + quoted(x.role)
                                          + " cannot be made: " + e.what());
  }
}

caf::result<std::uint32_t> node_state::spawn(const spawn_order& x) {
  const auto by =
    guests.find(caf::actor_cast<caf::actor_addr>(self->current_sender()));
  if (by == guests.end())
    return caf::make_error(
      ec::refused,
      std::string{"a node spawns roles for connected clients only"});
  auto& owner = by->second;
  if (owner.roles >= settings.roles_per_guest)
    return caf::make_error(ec::busy, "this connection has "
                                       + std::to_string(owner.roles)
                                       + " roles already");
  const auto made = make(x);
  if (!made)
    return made.error();
  const auto channel = ++owner.channels;
  const auto found = settings.roles->find(x.role);
  auto door = found->open(self->system(), *made, owner.via->open(channel),
                          {.patience = settings.patience});
  ++owner.roles;
  self->monitor(*made);
  self->monitor(door);
  roles.emplace(made->address(), role{*made, by->first, x.role});
  gates.emplace(door.address(), gate{door, made->address()});
  return channel;
}

void node_state::end_role(const caf::actor& it) {
  caf::anon_send_exit(it, caf::exit_reason::user_shutdown);
  // A role that ignores it is killed.
  caf::delayed_anon_send(
    it, settings.farewell,
    caf::exit_msg{self->address(), caf::exit_reason::kill});
}

void node_state::on_down(const caf::actor_addr& who) {
  if (const auto it = roles.find(who); it != roles.end()) {
    if (const auto of = guests.find(it->second.guest); of != guests.end())
      --of->second.roles;
    roles.erase(it);
  } else if (const auto it = gates.find(who); it != gates.end()) {
    if (const auto of = roles.find(it->second.role); of != roles.end())
      end_role(of->second.it);
    gates.erase(it);
  } else if (const auto it = guests.find(who); it != guests.end()) {
    it->second.via->close("the node's skeleton terminated");
    guests.erase(it);
    for (auto& [addr, x] : roles)
      if (x.guest == who)
        end_role(x.it);
  }
}

node_info node_state::info() const {
  node_info x{.name = settings.name,
              .incarnation = settings.incarnation,
              .version = version,
              .roles = settings.roles->names(),
              .guests = static_cast<std::uint32_t>(guests.size())};
  for (const auto& [addr, one] : roles)
    x.running.push_back(one.name);
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    x.devices.push_back(to_string(device{device_kind::cpu, i}));
  x.uptime_ms = static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now()
                                                          - since)
      .count());
  if (double load = 0; ::getloadavg(&load, 1) == 1)
    x.load = load;
  return x;
}

void node_state::stop() {
  if (settings.stopped)
    settings.stopped();
  self->quit();
}

node_inside::behavior_type node(node_inside::stateful_pointer<node_state> self,
                                node_settings settings) {
  auto& state = self->state;
  state.settings = std::move(settings);
  state.since = self->clock().now();
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x.source); });
  return {
    [self](atom::spawn, const spawn_order& x) { return self->state.spawn(x); },
    [self](atom::who) { return self->state.info(); },
    [self](atom::stop) { self->state.stop(); },
    [self](const guest_ref& x) { self->state.welcome(x); },
  };
}

} // namespace troupe
