#include "troupe/actors/shard/backup_sender.hpp"

#include "troupe/actors/shard/shard_state.hpp"
#include "troupe/actors/shard/shard_store.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe {

namespace {

using namespace parameter_server;

/// Timeout of a message to another copy.
constexpr std::chrono::milliseconds copy_timeout{30'000};

/// A connection carries so many messages of one process at once, because each
/// can have tensors.
constexpr std::size_t max_in_flight = 8;

} // namespace

backup_sender::backup_sender(shard_host_internal_actor::pointer self,
                             host_connector connect, host_functions host)
  : self_{self}, connect_{std::move(connect)}, host_{std::move(host)} {}

void backup_sender::set_servers(const std::vector<server_address>& servers) {
  std::erase_if(peers_, [&](const auto& x) {
    return std::ranges::none_of(
      servers, [&](const auto& at) { return at.server == x.first; });
  });
  for (const auto& one : servers)
    peers_[one.server].address = one.address;
}

void backup_sender::send(std::uint32_t shard, send_record&& x) {
  const auto to = x.backup;
  send(to, {shard, std::move(x)});
}

void backup_sender::send(std::uint32_t shard, send_snapshot&& x) {
  outgoing message{shard, copy_snapshot{shard, std::move(x.snapshot), {}}};
  auto& made = std::get<copy_snapshot>(message.what);
  for (const auto& one : x.gradients) {
    const auto& operands = tensors_of(one);
    made.operands.push_back(static_cast<std::uint32_t>(operands.size()));
    message.beside.insert(message.beside.end(), operands.begin(),
                          operands.end());
  }
  send(x.backup, std::move(message));
}

void backup_sender::send(std::uint32_t shard, const send_inquire& x) {
  send(x.backup, {shard, x.inquire});
}

void backup_sender::send(std::uint32_t shard, const send_in_sync& x) {
  send(x.backup, {shard, x.in_sync});
}

/// Queues a message to a backup, unless it is on its way. The protocol sends it
/// again if there is no connection. A snapshot gets its image here, because
/// that copies all tables.
void backup_sender::send(std::uint64_t to, outgoing&& message) {
  const auto found = peers_.find(to);
  if (found == peers_.end())
    return;
  auto& at = found->second;
  if (!at.link.host) {
    if (!std::exchange(at.is_connecting, true))
      connect_(at.address, self_->address());
    return;
  }
  auto& sent = at.sent[message.shard];
  const auto view_id = host_.view_of(message.shard);
  if (sent.view_id != view_id)
    sent = {view_id, 0, {}};
  if (const auto* x = std::get_if<send_record>(&message.what)) {
    if (x->record.sequence <= sent.sent)
      return;
    sent.sent = x->record.sequence;
  } else if (!sent.pending.insert(message.what.index()).second) {
    return;
  } else if (auto* const x = std::get_if<copy_snapshot>(&message.what)) {
    x->image = host_.image_of(message.shard, message.beside);
    sent.sent = x->snapshot.sequence; // the records after it follow
  }
  at.queue.push_back(std::move(message));
  pump(to, at);
}

template <class... Ts>
void backup_sender::request_of(std::uint64_t to, peer& at,
                               const outgoing& message, std::uint64_t sequence,
                               std::uint64_t view_id, Ts&&... xs) {
  ++at.in_flight;
  const auto answer = [=, this, connection = at.connection,
                       shard = message.shard,
                       kind = message.what.index()](const stored* x) {
    on_stored(to, connection, shard, kind, sequence, view_id, x);
  };
  self_->request(at.link.host, copy_timeout, std::forward<Ts>(xs)...)
    .then([answer](const stored& x) { answer(&x); },
          [answer](const caf::error&) { answer(nullptr); });
}

void backup_sender::pump(std::uint64_t to, peer& at) {
  while (at.in_flight < max_in_flight && !at.queue.empty()) {
    auto message = std::move(at.queue.front());
    at.queue.pop_front();
    const auto view_id = host_.view_of(message.shard);
    if (const auto* x = std::get_if<send_record>(&message.what)) {
      copy_record made{message.shard, x->record, {}, {}};
      tensors operands;
      const auto& commands = x->record.commands;
      if (commands.empty()) {
        operands = tensors_of(x->gradient);
      } else if (!commands[0].is_read) { // a backup performs no read
        const auto content = content_of(x->gradient);
        made.kind = content->kind;
        made.body = content->body;
        operands = content->operands;
      }
      const auto sequence = x->record.sequence;
      request_of(to, at, message, sequence, x->record.view_id, std::move(made),
                 std::move(operands));
    } else if (auto* const x = std::get_if<copy_snapshot>(&message.what)) {
      const auto sequence = x->snapshot.sequence;
      const auto of_view = x->snapshot.view_id;
      request_of(to, at, message, sequence, of_view, std::move(*x),
                 std::move(message.beside));
    } else if (const auto* x = std::get_if<inquire>(&message.what)) {
      request_of(to, at, message, 0, view_id, copy_inquiry{message.shard, *x});
    } else if (const auto* x = std::get_if<in_sync>(&message.what)) {
      request_of(to, at, message, 0, view_id, copy_in_sync{message.shard, *x});
    }
  }
}

/// @param answer null: the message, or its answer, was lost.
void backup_sender::on_stored(std::uint64_t from, std::uint64_t connection,
                              std::uint32_t shard, std::size_t kind,
                              std::uint64_t sequence, std::uint64_t view_id,
                              const stored* answer) {
  const auto found = peers_.find(from);
  if (found == peers_.end() || found->second.connection != connection)
    return;
  auto& at = found->second;
  --at.in_flight;
  auto& sent = at.sent[shard];
  if (sent.view_id == view_id) {
    sent.pending.erase(kind);
    // The backup has not taken it: the protocol sends it again.
    if (sequence > 0
        && (!answer || answer->view_id != view_id || !answer->has_state
            || answer->sequence < sequence))
      sent.sent = 0;
  }
  if (answer)
    host_.on_stored(shard, *answer); // it may send, and change the servers
  if (const auto again = peers_.find(from); again != peers_.end())
    pump(from, again->second);
}

bool backup_sender::on_link(const host_link& x) {
  const auto found = std::ranges::find_if(peers_, [&](const auto& one) {
    return one.second.address == x.address && one.second.is_connecting;
  });
  if (found == peers_.end())
    return false;
  auto& at = found->second;
  at.is_connecting = false;
  // Another life of the process has no part in the view.
  if (!x.host || x.server != found->first)
    return false;
  at.link = x;
  ++at.connection;
  at.in_flight = 0;
  at.queue.clear();
  at.sent.clear();
  self_->monitor(x.host);
  return true;
}

void backup_sender::on_down(const caf::actor_addr& source) {
  for (auto& [server, one] : peers_)
    if (one.link.host && one.link.host == source) {
      one.link = {};
      ++one.connection;
      one.in_flight = 0;
      one.queue.clear();
      one.sent.clear();
    }
}

} // namespace troupe
