#include "troupe/actors/membership/peers/peer_connections.hpp"

#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/net/codec/codec.hpp"

#include <caf/actor_cast.hpp>

#include <algorithm>

namespace troupe {

namespace {

/// Passes what arrives on a channel to the actor.
class peer_listener final : public net::channel_listener {
public:
  peer_listener(const caf::actor_addr& owner, std::uint32_t task,
                std::uint64_t connection, std::uint32_t channel)
    : owner_{owner}, task_{task}, connection_{connection}, channel_{channel} {}

  void on_frame(net::frame&& frame) override {
    tell(membership_event::received{
      task_, connection_, channel_,
      std::make_shared<net::frame>(std::move(frame))});
  }
  /// The channels of a connection end together.
  void on_closed(net::close_reason cause, const std::string& reason) override {
    if (channel_ == membership_channel)
      tell(membership_event::closed{task_, connection_, cause, reason});
  }

private:
  template <class Event>
  void tell(Event&& event) {
    if (const auto owner = caf::actor_cast<membership_internal_actor>(owner_))
      caf::anon_send(owner, std::forward<Event>(event));
  }

  caf::actor_addr owner_; ///< Weak: the actor owns the channel.
  std::uint32_t task_;
  std::uint64_t connection_;
  std::uint32_t channel_;
};

} // namespace

// -- connections --------------------------------------------------------------

peer_connection&
peer_connections::add(const view_change::process_id& process,
                      std::shared_ptr<net::connection> connection) {
  const auto task = process.task;
  const auto incarnation = process.incarnation;
  auto& one = peers_[task];
  if (one.connection)
    one.connection->close("the process has connected again");
  one = {.task = task,
         .incarnation = incarnation,
         .number = ++last_number_,
         .connection = connection,
         .control = connection->open(membership_channel),
         .view_changes = connection->open(view_change_channel),
         .results = connection->open(result_channel),
         .packet_reports = connection->open(packet_report_channel),
         .process = watch(connection->peer())};
  if (one.process)
    process_numbers_[incarnation] = one.process->number();
  auto& table = context_.peers();
  if (!table.stop.requested)
    causes_of_loss_.erase(incarnation);
  context_.log().note_connected(task, incarnation);
  table.update([&] {
    auto& entry = table.entries[task];
    const bool has_left = entry.incarnation == incarnation && entry.has_left;
    entry = {std::move(connection), incarnation, has_left, {}};
  });
  listen(one);
  return one;
}

void peer_connections::listen(const peer_connection& one) {
  const auto add_listener = [&](net::channel& channel, std::uint32_t number) {
    channel.set_listener(std::make_shared<peer_listener>(
      context_.handle().address(), one.task, one.number, number));
  };
  add_listener(*one.control, membership_channel);
  add_listener(*one.view_changes, view_change_channel);
  add_listener(*one.results, result_channel);
  add_listener(*one.packet_reports, packet_report_channel);
}

std::optional<peer_connections::ended_connection>
peer_connections::remove(const membership_event::closed& x) {
  const auto* const lost = find_connection(x.task, x.connection);
  if (!lost)
    return {};
  ended_connection out{lost->id(), lost->connection->ended_by_close(),
                       lost->process, lost->request};
  const auto incarnation = lost->incarnation;
  auto& table = context_.peers();
  table.update([&] {
    table.entries[x.task].closed = {x.cause, x.reason};
    table.deferral.waiting.erase(incarnation);
  });
  context_.log().note_lost(x.task, x.cause, x.reason);
  if (table.view.contains(x.task, incarnation))
    causes_of_loss_[incarnation] = x.reason;
  peers_.erase(x.task);
  return out;
}

void peer_connections::close_all(const std::string& reason) {
  for (const auto& [task, x] : peers_)
    x.connection->close(reason);
}

std::shared_ptr<const net::process_handle>
peer_connections::watch(const net::hello& of) const {
  if (context_.options().watch)
    return context_.options().watch(read_process_identity(of));
  auto found = net::process_handle::open(read_process_identity(of));
  return found ? std::make_shared<const net::process_handle>(std::move(*found))
               : nullptr;
}

// -- queries ------------------------------------------------------------------

const peer_connection* peer_connections::find(std::uint32_t task) const {
  const auto it = peers_.find(task);
  return it == peers_.end() ? nullptr : &it->second;
}

peer_connection*
peer_connections::find(const view_change::process_id& process) {
  const auto it = peers_.find(process.task);
  return it != peers_.end() && it->second.incarnation == process.incarnation
           ? &it->second
           : nullptr;
}

const peer_connection*
peer_connections::find(const view_change::process_id& process) const {
  const auto* const found = find(process.task);
  return found && found->incarnation == process.incarnation ? found : nullptr;
}

peer_connection* peer_connections::find_connection(std::uint32_t task,
                                                   std::uint64_t number) {
  const auto it = peers_.find(task);
  return it != peers_.end() && it->second.number == number ? &it->second
                                                           : nullptr;
}

bool peer_connections::is_connected(std::uint64_t incarnation) const {
  return std::ranges::any_of(peers_, [&](const auto& one) {
    return one.second.incarnation == incarnation;
  });
}

std::optional<std::uint64_t>
peer_connections::number_of(std::uint64_t incarnation) const {
  const auto it = process_numbers_.find(incarnation);
  return it == process_numbers_.end() ? std::nullopt
                                      : std::optional{it->second};
}

void peer_connections::on_installed(const membership::view& next) {
  const auto is_member = [&](std::uint64_t incarnation) {
    return std::ranges::find(next.members, incarnation,
                             &membership::member::incarnation)
           != next.members.end();
  };
  std::erase_if(process_numbers_, [&](const auto& x) {
    return !is_member(x.first) && !is_connected(x.first);
  });
  std::erase_if(causes_of_loss_, [&](const auto& x) {
    return !is_member(x.first) || is_connected(x.first);
  });
}

// -- messages -----------------------------------------------------------------

bool peer_connections::post(net::channel& channel, std::uint64_t tag,
                            const membership::message& message) {
  return channel.post({net::frame_kind::oneway, net::priority::control, 0, tag,
                       net::encode(message.kind, message.text, message.view)});
}

void peer_connections::send(std::uint32_t task,
                            const membership::message& message) {
  const auto it = peers_.find(task);
  if (it == peers_.end())
    return;
  auto& one = it->second;
  if (!post(*one.control, ++one.last_tag, message))
    one.connection->close("a membership message could not be sent");
}

void peer_connections::send(const view_change::process_id& receiver,
                            const view_change::message& message) {
  auto* const one = find(receiver);
  if (!one)
    return;
  auto payload = net::encode(message);
  const auto limit =
    one->view_changes->limits().max_payload(net::priority::control);
  if (payload.size() > limit
      || !one->view_changes->post({net::frame_kind::oneway,
                                   net::priority::control, message.view_id,
                                   ++one->last_tag, std::move(payload)}))
    one->connection->close("a message of a view change could not be sent");
}

void peer_connections::send_view(std::uint32_t task) {
  auto& table = context_.peers();
  send(task, {membership::message_kind::current_view,
              context_.is_leader() ? membership::leads_job : "",
              table.get([&] { return table.view; })});
}

} // namespace troupe
