#pragma once

#include "troupe/net/session/connection.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <map>
#include <mutex>
#include <optional>

namespace troupe::testing {

/// Both ends of a connection in one process. Each channel is a loopback.
class connected_pair {
public:
  using side = net::loopback::side;

  connected_pair() {
    for (const auto s : {net::loopback::left, net::loopback::right})
      ends_[s] = std::make_shared<end_of_it>(wires_, s);
  }

  std::shared_ptr<net::connection> end_of(side x) const { return ends_[x]; }

  /// Delivers the frames of all channels. @returns their number.
  std::size_t deliver() { return wires_->deliver(); }

  /// Ends the connection and notifies both sides.
  void end(net::ending how, const std::string& why) { wires_->end(how, why); }

private:
  struct wires {
    net::loopback& at(std::uint32_t channel) {
      const std::lock_guard hold{lock};
      auto& it = all[channel];
      if (!it)
        it = std::make_unique<net::loopback>();
      return *it;
    }
    std::size_t deliver() {
      std::size_t count = 0;
      for (auto& [channel, it] : all)
        count += it->deliver();
      return count;
    }
    void end(net::ending how, const std::string& why) {
      for (auto& [channel, it] : all)
        it->end(how, why);
      for (auto& fn : std::exchange(listeners, {}))
        fn(how, why);
    }

    std::mutex lock;
    std::map<std::uint32_t, std::unique_ptr<net::loopback>> all;
    std::vector<std::function<void(net::ending, const std::string&)>> listeners;
  };

  struct end_of_it final : net::connection {
    end_of_it(std::shared_ptr<wires> by, side at) : by{std::move(by)}, at{at} {}

    std::shared_ptr<net::link> open(std::uint32_t channel) override {
      return by->at(channel).end_of(at);
    }
    const net::hello& peer() const override { return other; }
    std::chrono::milliseconds silence() const override { return {}; }
    void
    on_end(std::function<void(net::ending, const std::string&)> fn) override {
      by->listeners.push_back(std::move(fn));
    }
    void close(const std::string& why) override {
      by->end(net::ending::dead, why);
    }

    std::shared_ptr<wires> by;
    side at;
    net::hello other;
  };

  std::shared_ptr<wires> wires_ = std::make_shared<wires>();
  std::shared_ptr<net::connection> ends_[2];
};

} // namespace troupe::testing
