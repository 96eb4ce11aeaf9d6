#include "troupe/net/session/stream_connection.hpp"

#include <utility>

// The channels of a connection: dispatches received events to their listeners.

namespace troupe::net {

class wired_connection::channel_link final : public link {
public:
  channel_link(std::shared_ptr<wired_connection> by, std::uint32_t channel)
    : by_{std::move(by)}, channel_{channel} {}

  void listen(std::shared_ptr<link_listener> to) override {
    by_->listen(channel_, std::move(to));
  }
  bool post(frame&& x) override {
    const std::lock_guard hold{by_->lock_};
    if (by_->over_ || !by_->board_.post(channel_, std::move(x)))
      return false;
    by_->flush();
    return true;
  }
  void consumed(priority x) override {
    const std::lock_guard hold{by_->lock_};
    by_->board_.consumed(channel_, x);
    by_->flush();
  }
  const frame_limits& limits() const override { return by_->how_.limits; }
  std::size_t credits(priority x) const override { return credits_of(x); }
  void close(const std::string& why) override {
    const std::lock_guard hold{by_->lock_};
    by_->board_.close(channel_, why);
    by_->flush();
  }

private:
  const std::shared_ptr<wired_connection> by_;
  const std::uint32_t channel_;
};

std::shared_ptr<link> wired_connection::open(std::uint32_t channel) {
  const std::lock_guard hold{lock_};
  auto kept = board_.open(channel);
  ears_[channel].waiting = std::move(kept);
  return std::make_shared<channel_link>(shared_from_this(), channel);
}

/// Pending events are delivered on the loop's thread, as are all later ones.
void wired_connection::listen(std::uint32_t channel,
                              std::shared_ptr<link_listener> to) {
  std::unique_lock hold{lock_};
  auto& x = ears_[channel];
  x.to = std::move(to);
  if (over_) {
    hold.unlock();
    hand_over(channel);
  } else if (!x.waiting.empty()) {
    loop_->post(
      [self = shared_from_this(), channel] { self->hand_over(channel); });
  }
}

void wired_connection::hand_over(std::uint32_t channel) {
  std::vector<news> all;
  {
    const std::lock_guard hold{lock_};
    if (const auto x = ears_.find(channel); x != ears_.end() && x->second.to)
      if (drain(x->first, x->second, all))
        ears_.erase(x);
  }
  tell(all);
}

/// Appends the pending events of a channel to `deliveries`, and its end if the
/// connection has ended.
/// @returns true if the listener gets no more events.
bool wired_connection::drain(std::uint32_t channel, ear& x,
                             std::vector<news>& to) const {
  const auto ended = !x.waiting.empty() && !x.waiting.back().heard;
  for (auto& e : x.waiting)
    to.push_back({x.to, std::move(e)});
  x.waiting.clear();
  if (over_ && !ended)
    to.push_back({x.to, {channel, {}, over_->why, over_->how}});
  return over_ || ended;
}

/// Assigns the events that were read to the listeners; without a listener they
/// are kept.
void wired_connection::route() {
  for (auto& e : events_) {
    auto& x = ears_[e.channel];
    const auto ended = !e.heard;
    const auto to = x.to;
    if (to && x.waiting.empty())
      news_.push_back({to, std::move(e)});
    else
      x.waiting.push_back(std::move(e));
    if (ended && to && x.waiting.empty())
      ears_.erase(e.channel);
  }
  events_.clear();
}

/// Calls the listeners. The mutex is not held: a listener may post.
void wired_connection::tell(std::vector<news>& all) {
  for (auto& x : all)
    if (x.what.heard)
      x.to->heard(std::move(*x.what.heard));
    else
      x.to->ended(x.what.how, x.what.ended);
  all.clear();
}

} // namespace troupe::net
