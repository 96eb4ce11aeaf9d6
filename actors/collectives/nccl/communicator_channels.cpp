#include "troupe/actors/collectives/nccl/communicator_channels.hpp"

#include "troupe/net/codec/codec.hpp"

#include <cstring>
#include <map>
#include <utility>

namespace troupe {

namespace {

/// Ids that are kept until this process asks for them: it is not many
/// generations behind process 0.
constexpr std::size_t max_ids = 64;

} // namespace

/// What has arrived. The listeners share it, because they may outlive the
/// channels.
struct communicator_channels::received {
  std::mutex lock; ///< Guards the members below.
  std::vector<std::optional<device_offer>> offers; ///< By rank.
  /// Of the communicators, by generation.
  std::map<std::uint64_t, communicator_id> ids;
  std::function<void()> changed; ///< Constant.

  /// @returns why the message is refused. Empty: it was accepted.
  std::string accept(std::uint32_t rank, const net::frame& frame) {
    communicator_message message;
    if (const auto fault = net::decode(frame.payload, message))
      return to_string(*fault);
    const std::lock_guard hold{lock};
    if (message.id.empty()) {
      // Others may have decided by the first one.
      if (offers[rank])
        return "it is a second offer";
      offers[rank] = std::move(message.offer);
      return {};
    }
    communicator_id id;
    if (message.id.size() != id.size() || rank != 0)
      return "it is no id of a communicator from process 0";
    std::memcpy(id.data(), message.id.data(), id.size());
    ids.emplace(message.generation, id);
    if (ids.size() > max_ids)
      ids.erase(ids.begin());
    return {};
  }
};

class communicator_channels::listener final : public net::channel_listener {
public:
  listener(std::shared_ptr<received> into, std::uint64_t view_id,
           std::uint32_t rank,
           const std::shared_ptr<net::connection>& connection,
           const std::shared_ptr<net::channel>& channel)
    : into_{std::move(into)},
      view_id_{view_id},
      rank_{rank},
      connection_{connection},
      channel_{channel} {}

  void on_frame(net::frame&& frame) override {
    const bool is_of_view = frame.view_id == view_id_;
    const auto refusal =
      is_of_view ? into_->accept(rank_, frame) : std::string{};
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
  const std::uint32_t rank_;
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
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
    if (channels_[rank])
      channels_[rank]->set_listener(std::make_shared<listener>(
        received_, view_id_, rank, peers_[rank].connection, channels_[rank]));
}

communicator_channels::~communicator_channels() {
  for (const auto& one : channels_)
    if (one)
      one->close("the view has ended");
}

void communicator_channels::post(std::uint32_t rank,
                                 const communicator_message& message) {
  // If the channel accepts no frame, the receiver notices it by its deadline.
  channels_[rank]->post({net::frame_kind::oneway, net::priority::control,
                         view_id_, ++last_tag_, net::encode(message)});
}

void communicator_channels::send(const device_offer& own) {
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (channels_[rank]) {
      post(rank, {own, 0, {}});
      continue;
    }
    const std::lock_guard hold{received_->lock};
    received_->offers[rank] = own;
  }
}

std::optional<std::vector<named_offer>> communicator_channels::offers() const {
  const std::lock_guard hold{received_->lock};
  std::vector<named_offer> out;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!received_->offers[rank])
      return std::nullopt;
    out.push_back({peers_[rank].name, *received_->offers[rank]});
  }
  return out;
}

void communicator_channels::publish(std::uint64_t generation,
                                    const communicator_id& id) {
  const std::string text{reinterpret_cast<const char*>(id.data()), id.size()};
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
    if (channels_[rank])
      post(rank, {{}, generation, text});
}

std::optional<communicator_id>
communicator_channels::find(std::uint64_t generation) {
  const std::lock_guard hold{received_->lock};
  const auto found = received_->ids.find(generation);
  if (found == received_->ids.end())
    return std::nullopt;
  const auto id = found->second;
  // No rank asks for the id of an older generation any more.
  received_->ids.erase(received_->ids.begin(), found);
  return id;
}

} // namespace troupe
