#include "troupe/actors/membership/peer_table.hpp"

#include "troupe/actors/group/world.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"

#include <algorithm>

namespace troupe {

namespace {

class membership_channel_listener final : public net::channel_listener {
public:
  membership_channel_listener(std::shared_ptr<peer_table> peers,
                              std::uint32_t task, std::uint64_t incarnation)
    : peers_{std::move(peers)}, task_{task}, incarnation_{incarnation} {}

  void on_frame(net::frame&& frame) override {
    membership_message message;
    const auto fault =
      net::decode(frame.payload, message.kind, message.text, message.view);
    const std::lock_guard hold{peers_->lock};
    auto& peer = peers_->entries[task_];
    if (peer.incarnation != incarnation_ || !peer.channel)
      return;
    peer.channel->consumed(frame.priority);
    if (!fault)
      handle(peer, std::move(message));
    else if (peer.connection)
      peer.connection->close("a membership message is malformed: "
                             + to_string(*fault));
    peers_->changed.notify_all();
  }

  void on_closed(net::close_reason reason, const std::string& text) override {
    const std::lock_guard hold{peers_->lock};
    auto& peer = peers_->entries[task_];
    if (peer.incarnation != incarnation_)
      return;
    if (peers_->admission_state)
      peers_->admission_state->on_lost(task_, incarnation_);
    peer.closed.emplace(reason, text);
    peers_->changed.notify_all();
  }

private:
  void handle(peer_table::peer_entry& peer, membership_message&& message) {
    switch (message.kind) {
      case membership_message_kind::view:
        if (!peers_->admission_state) // the leader makes the view itself
          peers_->view = std::move(message.view);
        break;
      case membership_message_kind::ready:
        peer.is_ready = true;
        break;
      case membership_message_kind::start:
        peers_->started = true;
        break;
      case membership_message_kind::abort:
        // Before the view is agreed, the leader ignores an abort, because it
        // can still admit another process in place of the sender.
        if (peers_->view || !peers_->admission_state)
          peers_->abort_reason =
            net::printable(message.text, net::max_sentence_bytes);
        break;
      case membership_message_kind::leave:
        peer.has_left = true;
        peers_->send(peer, {membership_message_kind::leave_ack, {}, {}});
        break;
      case membership_message_kind::leave_ack:
        peer.has_left = true;
        break;
      case membership_message_kind::shutdown:
        peers_->shut_down = true;
        peers_->send(peer, {membership_message_kind::leave, {}, {}});
    }
  }

  std::shared_ptr<peer_table> peers_;
  std::uint32_t task_;
  std::uint64_t incarnation_;
};

} // namespace

void peer_table::send(peer_entry& peer, membership_message message) {
  if (!peer.channel || peer.closed)
    return;
  peer.channel->post({net::frame_kind::oneway, net::priority::control, 0,
                      ++peer.last_tag,
                      net::encode(message.kind, message.text, message.view)});
}

bool peer_table::failed() const {
  return abort_reason || std::ranges::any_of(entries, [](const peer_entry& x) {
           return bool(x.closed);
         });
}

void attach_peer(const std::shared_ptr<peer_table>& peers, std::uint32_t task,
                 std::uint64_t incarnation,
                 std::shared_ptr<net::connection> connection) {
  const auto channel = connection->open(membership_channel);
  {
    const std::lock_guard hold{peers->lock};
    peers->entries[task] = {
      std::move(connection), channel, incarnation, 0, false, false, {}};
    peers->changed.notify_all();
  }
  channel->set_listener(
    std::make_shared<membership_channel_listener>(peers, task, incarnation));
}

} // namespace troupe
