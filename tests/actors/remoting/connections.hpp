#pragma once

#include "troupe/net/session/connection.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <map>
#include <mutex>
#include <optional>

namespace troupe::testing {

/// Both ends of a connection in one process. Each channel is a loopback
/// channel.
class connected_pair {
public:
  using side = net::loopback_channel::side;

  connected_pair() {
    for (const auto s :
         {net::loopback_channel::left, net::loopback_channel::right})
      ends_[s] = std::make_shared<connection_end>(channels_, s);
  }

  std::shared_ptr<net::connection> end_of(side x) const { return ends_[x]; }

  /// Delivers the frames of all channels. @returns their number.
  std::size_t deliver() { return channels_->deliver(); }

  /// Ends the connection and notifies both sides.
  void end(net::close_reason cause, const std::string& reason) {
    channels_->end(cause, reason);
  }

private:
  struct channel_set {
    net::loopback_channel& get(std::uint32_t channel) {
      const std::lock_guard hold{lock};
      auto& channel_pair = loopbacks[channel];
      if (!channel_pair)
        channel_pair = std::make_unique<net::loopback_channel>();
      return *channel_pair;
    }
    std::size_t deliver() {
      std::size_t count = 0;
      for (auto& [channel, it] : loopbacks)
        count += it->deliver();
      return count;
    }
    void end(net::close_reason cause, const std::string& reason) {
      for (auto& [channel, it] : loopbacks)
        it->close_with(cause, reason);
      for (auto& fn : std::exchange(listeners, {}))
        fn(cause, reason);
    }

    std::mutex lock;
    std::map<std::uint32_t, std::unique_ptr<net::loopback_channel>> loopbacks;
    std::vector<std::function<void(net::close_reason, const std::string&)>>
      listeners;
  };

  struct connection_end final : net::connection {
    connection_end(std::shared_ptr<channel_set> channels, side own_side)
      : channels{std::move(channels)}, own_side{own_side} {}

    std::shared_ptr<net::channel> open(std::uint32_t channel) override {
      return channels->get(channel).end_of(own_side);
    }
    const net::hello& peer() const override { return peer_hello; }
    std::chrono::milliseconds silence() const override { return {}; }
    void on_closed(
      std::function<void(net::close_reason, const std::string&)> fn) override {
      channels->listeners.push_back(std::move(fn));
    }
    void close(const std::string& reason) override {
      channels->end(net::close_reason::closed, reason);
    }

    std::shared_ptr<channel_set> channels;
    side own_side;
    net::hello peer_hello;
  };

  std::shared_ptr<channel_set> channels_ = std::make_shared<channel_set>();
  std::shared_ptr<net::connection> ends_[2];
};

} // namespace troupe::testing
