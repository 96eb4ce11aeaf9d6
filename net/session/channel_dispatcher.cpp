#include "troupe/net/session/stream_connection.hpp"

#include <utility>

// Implements the channels of a connection, and delivers received events to the
// listeners of the channels.

namespace troupe::net {

class stream_connection::connection_channel final : public channel {
public:
  connection_channel(std::shared_ptr<stream_connection> owner,
                     std::uint32_t channel)
    : owner_{std::move(owner)}, channel_{channel} {}

  void set_listener(std::shared_ptr<channel_listener> listener) override {
    owner_->set_listener(channel_, std::move(listener));
  }
  bool post(frame&& outgoing) override {
    const std::lock_guard hold{owner_->lock_};
    if (owner_->closed_
        || !owner_->multiplexer_.post(channel_, std::move(outgoing)))
      return false;
    owner_->flush();
    return true;
  }
  bool has_ended() const override {
    const std::lock_guard hold{owner_->lock_};
    return owner_->closed_ || owner_->multiplexer_.has_ended(channel_);
  }
  void consumed(priority frame_priority) override {
    const std::lock_guard hold{owner_->lock_};
    owner_->multiplexer_.consumed(channel_, frame_priority);
    owner_->flush();
  }
  const frame_limits& limits() const override {
    return owner_->settings_.limits;
  }
  std::size_t credits(priority frame_priority) const override {
    return credits_of(frame_priority);
  }
  void close(const std::string& reason) override {
    const std::lock_guard hold{owner_->lock_};
    owner_->multiplexer_.close(channel_, reason);
    owner_->flush();
  }

private:
  const std::shared_ptr<stream_connection> owner_;
  const std::uint32_t channel_;
};

std::shared_ptr<channel> stream_connection::open(std::uint32_t channel) {
  const std::lock_guard hold{lock_};
  auto kept = multiplexer_.open(channel);
  listeners_[channel].pending = std::move(kept);
  return std::make_shared<connection_channel>(shared_from_this(), channel);
}

/// While the connection exists, the loop's thread delivers all events, so that
/// they stay in order.
void stream_connection::set_listener(
  std::uint32_t channel, std::shared_ptr<channel_listener> listener) {
  std::unique_lock hold{lock_};
  auto& entry = listeners_[channel];
  entry.listener = std::move(listener);
  if (closed_) {
    hold.unlock();
    dispatch(channel);
  } else if (!entry.pending.empty()) {
    loop_->post(
      [self = shared_from_this(), channel] { self->dispatch(channel); });
  }
}

void stream_connection::dispatch(std::uint32_t channel) {
  std::vector<delivery> deliveries;
  {
    const std::lock_guard hold{lock_};
    if (const auto entry = listeners_.find(channel);
        entry != listeners_.end() && entry->second.listener)
      if (take_pending(entry->first, entry->second, deliveries))
        listeners_.erase(entry);
  }
  deliver(deliveries);
}

/// Moves the pending events of a channel to `deliveries`. If the connection has
/// ended, appends the end of the channel.
/// @returns true if the listener receives no more events.
bool stream_connection::take_pending(std::uint32_t channel,
                                     listener_entry& entry,
                                     std::vector<delivery>& deliveries) const {
  const auto ended = !entry.pending.empty() && !entry.pending.back().received;
  for (auto& e : entry.pending)
    deliveries.push_back({entry.listener, std::move(e)});
  entry.pending.clear();
  if (closed_ && !ended)
    deliveries.push_back(
      {entry.listener, {channel, {}, closed_->reason, closed_->cause}});
  return closed_ || ended;
}

/// Assigns each event that `read` has decoded to the listener of its channel.
/// Keeps the events of a channel that has no listener.
void stream_connection::route_events() {
  for (auto& e : events_) {
    auto& entry = listeners_[e.channel];
    const auto ended = !e.received;
    const auto listener = entry.listener;
    if (listener && entry.pending.empty())
      deliveries_.push_back({listener, std::move(e)});
    else
      entry.pending.push_back(std::move(e));
    if (ended && listener && entry.pending.empty())
      listeners_.erase(e.channel);
  }
  events_.clear();
}

/// Calls the listeners. @pre the mutex is not held, because a listener may
/// post.
void stream_connection::deliver(std::vector<delivery>& deliveries) {
  for (auto& x : deliveries)
    if (x.event.received)
      x.listener->on_frame(std::move(*x.event.received));
    else
      x.listener->on_closed(x.event.cause, x.event.reason);
  deliveries.clear();
}

} // namespace troupe::net
