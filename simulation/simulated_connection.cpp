#include "troupe/net/session/multiplexer.hpp"
#include "troupe/simulation/simulated_network_core.hpp"

#include <algorithm>

// Simulated control connections: the multiplexers of two processes, and the
// bytes between them.

namespace troupe::simulation {

namespace {

using net::switchboard;

std::string silence_of(std::chrono::milliseconds x) {
  return "nothing was heard of it for " + std::to_string(x.count()) + " ms";
}

class wire final : public cable, public std::enable_shared_from_this<wire> {
public:
  wire(const std::shared_ptr<network_core>& by,
       const network_core::pair& between)
    : net_{by} {
    ends_[0].out = {between.first, between.second};
    ends_[1].out = {between.second, between.first};
  }

  void open(std::size_t side, std::uint32_t channel) {
    auto& x = ends_[side];
    x.ears[channel].waiting = x.board.open(channel);
    flush(side);
  }

  void listen(std::size_t side, std::uint32_t channel,
              std::shared_ptr<net::link_listener> to) {
    ends_[side].ears[channel].to = std::move(to);
    hand_over(side, channel);
  }

  bool post(std::size_t side, std::uint32_t channel, net::frame&& x) {
    auto& from = ends_[side];
    if (from.over || !from.board.post(channel, std::move(x)))
      return false;
    flush(side);
    return true;
  }

  void consumed(std::size_t side, std::uint32_t channel, net::priority x) {
    ends_[side].board.consumed(channel, x);
    flush(side);
  }

  void close(std::size_t side, std::uint32_t channel, const std::string& why) {
    ends_[side].board.close(channel, why);
    flush(side);
  }

  void say_goodbye(std::size_t side, const std::string& why) {
    ends_[side].board.say_goodbye(why);
    flush(side);
  }

  void on_end(std::size_t side,
              std::function<void(net::ending, const std::string&)> fn) {
    auto& x = ends_[side];
    if (x.over)
      fn(x.over->how, x.over->why);
    else
      x.on_end.push_back(std::move(fn));
  }

  const net::frame_limits& limits() const { return ends_[0].board.limits(); }

  void cut(net::ending how) override {
    const auto net = net_.lock();
    if (!net || std::exchange(gone_, true))
      return;
    for (std::size_t side : {0, 1}) {
      const auto& x = ends_[side];
      const bool told = how == net::ending::dead;
      const auto wait = told ? net->moment(x.out.to, x.out.from)
                             : network_core::time{net->how.suspect};
      const auto why = told ? std::string{"the connection was cut"}
                            : silence_of(net->how.suspect);
      net->at(net->now() + wait, [self = weak_from_this(), side, how, why] {
        if (const auto it = self.lock())
          it->end(side, {how, why});
      });
    }
  }

private:
  struct ear {
    std::shared_ptr<net::link_listener> to;
    std::vector<switchboard::event> waiting; ///< Not passed to a listener yet.
  };
  struct side_of {
    switchboard board{net::frame_limits{}};
    network_core::road out;
    std::map<std::uint32_t, ear> ears; ///< By channel.
    std::optional<switchboard::end> over;
    std::vector<std::function<void(net::ending, const std::string&)>> on_end;
  };

  void flush(std::size_t side) {
    auto& x = ends_[side];
    const auto net = net_.lock();
    while (!x.board.out().empty()) {
      const auto front = x.board.out().front();
      std::vector<std::byte> bytes(front.begin(), front.end());
      x.board.out().written(bytes.size());
      if (!net || gone_ || x.over)
        continue;
      const auto comes = net->send(x.out, bytes.size()).last;
      net->at(comes, [self = weak_from_this(), side, bytes] {
        if (const auto it = self.lock(); it && !it->gone_)
          it->take(1 - side, bytes);
      });
    }
  }

  void take(std::size_t side, const std::vector<std::byte>& bytes) {
    auto& x = ends_[side];
    if (x.over)
      return;
    std::vector<switchboard::event> events;
    const auto over = x.board.take(bytes, events);
    for (auto& e : events) {
      const auto channel = e.channel;
      x.ears[channel].waiting.push_back(std::move(e));
      hand_over(side, channel);
    }
    flush(side);
    if (!over)
      return;
    if (over->said) // the other side announced the end: it receives no more
      end(1 - side, *over);
    end(side, *over);
  }

  void hand_over(std::size_t side, std::uint32_t channel) {
    auto& x = ends_[side].ears[channel];
    const auto to = x.to;
    if (!to)
      return;
    auto all = std::exchange(x.waiting, {});
    const bool ended = !all.empty() && !all.back().heard;
    if (const auto& over = ends_[side].over; over && !ended)
      all.push_back({channel, {}, over->why, over->how});
    if (!all.empty() && !all.back().heard)
      ends_[side].ears.erase(channel);
    for (auto& e : all)
      if (e.heard)
        to->heard(std::move(*e.heard));
      else
        to->ended(e.how, e.ended);
  }

  void end(std::size_t side, const switchboard::end& how) {
    auto& x = ends_[side];
    if (x.over)
      return;
    x.over = how;
    std::vector<std::uint32_t> channels;
    for (const auto& [channel, of] : x.ears)
      channels.push_back(channel);
    for (const auto channel : channels)
      hand_over(side, channel);
    for (const auto& fn : std::exchange(x.on_end, {}))
      fn(how.how, how.why);
  }

  std::weak_ptr<network_core> net_;
  side_of ends_[2];
  bool gone_ = false;
};

class wire_link final : public net::link {
public:
  wire_link(std::shared_ptr<wire> by, std::size_t side, std::uint32_t channel)
    : by_{std::move(by)}, side_{side}, channel_{channel} {}

  void listen(std::shared_ptr<net::link_listener> to) override {
    by_->listen(side_, channel_, std::move(to));
  }
  bool post(net::frame&& x) override {
    return by_->post(side_, channel_, std::move(x));
  }
  void consumed(net::priority x) override { by_->consumed(side_, channel_, x); }
  const net::frame_limits& limits() const override { return by_->limits(); }
  std::size_t credits(net::priority x) const override {
    return net::credits_of(x);
  }
  void close(const std::string& why) override {
    by_->close(side_, channel_, why);
  }

private:
  const std::shared_ptr<wire> by_;
  const std::size_t side_;
  const std::uint32_t channel_;
};

class wire_end final : public net::connection {
public:
  wire_end(std::shared_ptr<wire> by, std::size_t side)
    : by_{std::move(by)}, side_{side} {}

  std::shared_ptr<net::link> open(std::uint32_t channel) override {
    by_->open(side_, channel);
    return std::make_shared<wire_link>(by_, side_, channel);
  }
  const net::hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override { return {}; }
  void
  on_end(std::function<void(net::ending, const std::string&)> fn) override {
    by_->on_end(side_, std::move(fn));
  }
  void close(const std::string& why) override { by_->say_goodbye(side_, why); }

private:
  const std::shared_ptr<wire> by_;
  const std::size_t side_;
  const net::hello peer_{};
};

} // namespace

std::shared_ptr<cable> make_wire(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between) {
  return std::make_shared<wire>(by, between);
}

std::shared_ptr<net::connection> end_of_wire(const std::shared_ptr<cable>& x,
                                             std::size_t side) {
  return std::make_shared<wire_end>(std::static_pointer_cast<wire>(x), side);
}

} // namespace troupe::simulation
