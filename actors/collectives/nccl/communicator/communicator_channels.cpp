#include "troupe/actors/collectives/nccl/communicator/communicator_channels.hpp"

#include "troupe/net/codec/codec.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

std::vector<std::byte> encode(const communicator_message& message) {
  net::writer out;
  if (const auto* const published = std::get_if<published_id>(&message)) {
    out(communicator_message_kind::id, published->generation);
    out.raw(published->id);
  } else {
    out(communicator_message_kind::offer, std::get<device_offer>(message));
  }
  return std::move(out).bytes();
}

std::string decode(std::span<const std::byte> bytes,
                   communicator_message& message) {
  net::reader from{bytes};
  communicator_message_kind kind{};
  from(kind);
  if (kind == communicator_message_kind::id) {
    auto& published = message.emplace<published_id>();
    from(published.generation);
    std::ranges::copy(from.raw(published.id.size(), "id"),
                      published.id.begin());
    if (!from.failed() && published.generation == 0)
      from.fail("an id has generation 0");
  } else {
    auto& offer = message.emplace<device_offer>();
    from(offer);
    if (!from.failed() && offer.devices.empty() == offer.why_none.empty())
      from.fail("an offer has neither or both of devices and why there are "
                "none");
  }
  const auto fault = from.finish();
  return fault ? to_string(*fault) : std::string{};
}

/// What has arrived. The listeners share it, because they may outlive the
/// channels.
struct communicator_channels::received {
  std::mutex lock; ///< Guards the members below.
  std::vector<std::optional<device_offer>> offers; ///< By process.
  communicator_ids ids;          ///< Ids of the view's communicators.
  std::function<void()> changed; ///< Constant.

  /// @returns why the message is refused. Empty: it was accepted.
  std::string accept(std::uint32_t index, const net::frame& frame) {
    communicator_message message;
    if (auto fault = decode(frame.payload, message); !fault.empty())
      return fault;
    const std::lock_guard hold{lock};
    return std::visit([&](auto& x) { return accept(index, x); }, message);
  }

private:
  std::string accept(std::uint32_t index, device_offer& offer) {
    // Others may have decided by the first one.
    if (offers[index])
      return "it is a second offer";
    offers[index] = std::move(offer);
    return {};
  }
  std::string accept(std::uint32_t index, const published_id& published) {
    if (index != 0) // rank 0 is in the first process
      return "only process 0 makes ids of communicators";
    ids.publish(published.generation, published.id);
    return {};
  }
};

class communicator_channels::listener final : public net::channel_listener {
public:
  listener(std::shared_ptr<received> into, std::uint64_t view_id,
           std::uint32_t index,
           const std::shared_ptr<net::connection>& connection,
           const std::shared_ptr<net::channel>& channel)
    : into_{std::move(into)},
      view_id_{view_id},
      index_{index},
      connection_{connection},
      channel_{channel} {}

  void on_frame(net::frame&& frame) override {
    const bool is_of_view = frame.view_id == view_id_;
    const auto refusal =
      is_of_view ? into_->accept(index_, frame) : std::string{};
    if (const auto connection = connection_.lock();
        connection && !refusal.empty())
      return connection->close("a message about NCCL is malformed: " + refusal);
    if (const auto channel = channel_.lock())
      channel->consumed(frame.priority);
    if (is_of_view)
      into_->changed();
  }
  void on_closed(net::close_reason, const std::string&) override {}

private:
  const std::shared_ptr<received> into_;
  const std::uint64_t view_id_;
  const std::uint32_t index_;
  // The channel owns its listener.
  const std::weak_ptr<net::connection> connection_;
  const std::weak_ptr<net::channel> channel_;
};

communicator_channels::communicator_channels(std::vector<peer> peers,
                                             std::uint64_t view_id,
                                             std::uint32_t channel,
                                             std::function<void()> changed)
  : view_id_{view_id},
    peers_{std::move(peers)},
    received_{std::make_shared<received>()} {
  received_->offers.resize(peers_.size());
  received_->changed = std::move(changed);
  for (const auto& one : peers_)
    channels_.push_back(one.connection ? one.connection->open(channel)
                                       : nullptr);
  for (std::uint32_t index = 0; index < peers_.size(); ++index)
    if (channels_[index])
      channels_[index]->set_listener(
        std::make_shared<listener>(received_, view_id_, index,
                                   peers_[index].connection, channels_[index]));
}

communicator_channels::~communicator_channels() {
  for (const auto& one : channels_)
    if (one)
      one->close("the view has ended");
}

void communicator_channels::post(std::uint32_t index,
                                 const communicator_message& message) {
  // If the channel accepts no frame, the receiver notices it by its deadline.
  channels_[index]->post({net::frame_kind::oneway, net::priority::control,
                          view_id_, ++last_tag_, encode(message)});
}

void communicator_channels::send(const device_offer& own) {
  for (std::uint32_t index = 0; index < peers_.size(); ++index) {
    if (channels_[index]) {
      post(index, own);
      continue;
    }
    const std::lock_guard hold{received_->lock};
    received_->offers[index] = own;
  }
}

std::optional<std::vector<named_offer>> communicator_channels::offers() const {
  const std::lock_guard hold{received_->lock};
  std::vector<named_offer> out;
  for (std::size_t index = 0; index < peers_.size(); ++index) {
    if (!received_->offers[index])
      return std::nullopt;
    out.push_back({peers_[index].name, *received_->offers[index]});
  }
  return out;
}

void communicator_channels::publish(std::uint64_t generation,
                                    const communicator_id& id) {
  received_->ids.publish(generation, id); // for other ranks of this process
  for (std::uint32_t index = 0; index < peers_.size(); ++index)
    if (channels_[index])
      post(index, published_id{generation, id});
}

std::optional<communicator_id>
communicator_channels::find(std::uint64_t generation) {
  return received_->ids.find(generation);
}

} // namespace troupe
