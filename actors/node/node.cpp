#include "troupe/actors/node/node.hpp"

#include "troupe/actors/core/version.hpp"
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
  // Close the connections before the roles end. Then the clients receive the
  // reason "the node ended" and not the reason "the role ended".
  for (auto& [addr, x] : clients)
    x.connection->close("the node ended");
  for (auto& [addr, x] : roles)
    end_role(x.handle);
}

void node_state::accept(const client_ref& ref) {
  if (clients.size() >= settings.max_clients)
    return ref.connection->close("the node serves "
                                 + std::to_string(clients.size())
                                 + " connections already");
  auto client_skeleton = caf::actor_cast<caf::actor>(spawn_skeleton(
    self->system(), node_actor{self}, ref.connection->open(root_channel),
    {.request_timeout = settings.request_timeout}));
  self->monitor(client_skeleton);
  clients.emplace(client_skeleton.address(),
                  client{ref.connection, ref.lane, client_skeleton});
}

caf::expected<caf::actor>
node_state::make_role(const spawn_request& request) const {
  const auto registered = settings.roles->find(request.role);
  if (!registered)
    return caf::make_error(ec::refused, "this node has no role "
                                          + quoted(request.role) + "; it has: "
                                          + name_list(settings.roles->names()));
  if (registered->fingerprint.arguments != request.fingerprint.arguments)
    return caf::make_error(ec::invalid,
                           "the role " + quoted(request.role)
                             + " is spawned with " + registered->arguments
                             + " here; the request has other types");
  if (registered->fingerprint != request.fingerprint)
    return caf::make_error(
      ec::invalid, "the role " + quoted(request.role)
                     + " has other messages here; run the same version of "
                       "the program on both sides");
  net::reader arguments{std::as_bytes(std::span{request.arguments})};
  try {
    return registered->create({self->system(), settings.router}, arguments);
  } catch (const std::exception& e) {
    return caf::make_error(ec::refused, "the role " + quoted(request.role)
                                          + " cannot be made: " + e.what());
  }
}

caf::result<std::uint32_t> node_state::spawn(const spawn_request& request) {
  const auto client_entry =
    clients.find(caf::actor_cast<caf::actor_addr>(self->current_sender()));
  if (client_entry == clients.end())
    return caf::make_error(
      ec::refused,
      std::string{"a node spawns roles for connected clients only"});
  auto& owner = client_entry->second;
  if (owner.roles >= settings.max_roles_per_client)
    return caf::make_error(ec::busy, "this connection has "
                                       + std::to_string(owner.roles)
                                       + " roles already");
  const auto handle = make_role(request);
  if (!handle)
    return handle.error();
  const auto channel = ++owner.last_channel;
  const auto registered = settings.roles->find(request.role);
  auto skeleton = registered->open_skeleton(
    self->system(), *handle, owner.connection->open(channel),
    {.request_timeout = settings.request_timeout,
     .lane = owner.lane ? owner.lane->open(channel) : nullptr});
  ++owner.roles;
  self->monitor(*handle);
  self->monitor(skeleton);
  roles.emplace(handle->address(),
                role{*handle, client_entry->first, request.role});
  role_skeletons.emplace(skeleton.address(),
                         role_skeleton{skeleton, handle->address()});
  return channel;
}

void node_state::end_role(const caf::actor& handle) {
  caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
  // A role that ignores this exit message is killed after the timeout.
  caf::delayed_anon_send(
    handle, settings.shutdown_timeout,
    caf::exit_msg{self->address(), caf::exit_reason::kill});
}

void node_state::on_down(const caf::actor_addr& source) {
  if (const auto it = roles.find(source); it != roles.end()) {
    if (const auto of = clients.find(it->second.client); of != clients.end())
      --of->second.roles;
    roles.erase(it);
  } else if (const auto it = role_skeletons.find(source);
             it != role_skeletons.end()) {
    if (const auto of = roles.find(it->second.role); of != roles.end())
      end_role(of->second.handle);
    role_skeletons.erase(it);
  } else if (const auto it = clients.find(source); it != clients.end()) {
    it->second.connection->close("the node's skeleton terminated");
    clients.erase(it);
    for (auto& [addr, x] : roles)
      if (x.client == source)
        end_role(x.handle);
  }
}

node_info node_state::info() const {
  node_info result{.name = settings.name,
                   .incarnation = settings.incarnation,
                   .version = version,
                   .roles = settings.roles->names(),
                   .clients = static_cast<std::uint32_t>(clients.size())};
  for (const auto& [addr, one] : roles)
    result.running.push_back(one.name);
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
    result.devices.push_back(to_string(device{device_kind::cpu, i}));
  result.uptime_ms = static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(self->clock().now()
                                                          - started)
      .count());
  if (double load = 0; ::getloadavg(&load, 1) == 1)
    result.load = load;
  return result;
}

void node_state::stop() {
  if (settings.on_stop)
    settings.on_stop();
  self->quit();
}

node_internal_actor::behavior_type
node(node_internal_actor::stateful_pointer<node_state> self,
     node_settings settings) {
  auto& state = self->state;
  state.settings = std::move(settings);
  state.started = self->clock().now();
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->state.on_down(x.source); });
  return {
    [self](atom::spawn, const spawn_request& x) {
      return self->state.spawn(x);
    },
    [self](atom::info) { return self->state.info(); },
    [self](atom::stop) { self->state.stop(); },
    [self](const client_ref& x) { self->state.accept(x); },
  };
}

} // namespace troupe
