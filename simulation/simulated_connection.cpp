#include "troupe/simulation/simulated_connection.hpp"

#include "troupe/net/session/failure_detector.hpp"
#include "troupe/net/session/multiplexer.hpp"
#include "troupe/simulation/simulated_network_core.hpp"

#include <algorithm>

// Simulated control connections: the multiplexers of two processes, and the
// bytes between them.

namespace troupe::simulation {

namespace {

using net::multiplexer;

std::string silence_text(std::chrono::milliseconds x) {
  return "no data was received from it for " + std::to_string(x.count())
         + " ms";
}

class simulated_connection final
  : public simulated_link,
    public std::enable_shared_from_this<simulated_connection> {
public:
  simulated_connection(const std::shared_ptr<network_core>& net,
                       const network_core::process_pair& between)
    : net_{net} {
    sides_[0].outgoing = {between.first, between.second};
    sides_[1].outgoing = {between.second, between.first};
    if (net->options.heartbeat_interval > std::chrono::milliseconds{0})
      for (auto& side : sides_)
        side.detector.emplace(steady_time(*net),
                              net->options.heartbeat_interval);
  }

  /// Begins to send heartbeats.
  void start() {
    if (const auto net = net_.lock(); net && sides_[0].detector)
      schedule_tick(*net);
  }

  void open(std::size_t side, std::uint32_t channel) {
    auto& state = sides_[side];
    state.channels[channel].pending = state.mux.open(channel);
    flush(side);
  }

  void set_listener(std::size_t side, std::uint32_t channel,
                    std::shared_ptr<net::channel_listener> listener) {
    sides_[side].channels[channel].listener = std::move(listener);
    deliver(side, channel);
  }

  bool post(std::size_t side, std::uint32_t channel, net::frame&& frame) {
    auto& state = sides_[side];
    if (state.closed)
      return false;
    if (const auto net = net_.lock(); net && net->on_frame) {
      frame.channel = channel;
      net->on_frame(state.outgoing.sender, frame);
    }
    if (!state.mux.post(channel, std::move(frame)))
      return false;
    flush(side);
    return true;
  }

  bool has_ended(std::size_t side, std::uint32_t channel) const {
    return sides_[side].closed || sides_[side].mux.has_ended(channel);
  }

  void consumed(std::size_t side, std::uint32_t channel, net::priority x) {
    sides_[side].mux.consumed(channel, x);
    flush(side);
  }

  void close(std::size_t side, std::uint32_t channel, const std::string& why) {
    sides_[side].mux.close(channel, why);
    flush(side);
  }

  void send_goaway(std::size_t side, const std::string& why) {
    sides_[side].mux.send_goaway(why);
    flush(side);
  }

  void
  on_closed(std::size_t side,
            std::function<void(net::close_reason, const std::string&)> fn) {
    auto& state = sides_[side];
    if (state.closed)
      fn(state.closed->cause, state.closed->reason);
    else
      state.closed_callbacks.push_back(std::move(fn));
  }

  bool ended_by_close(std::size_t side) const {
    const auto& end = sides_[side].closed;
    return !end || end->announced;
  }

  const net::frame_limits& limits() const { return sides_[0].mux.limits(); }

  void disconnect(net::close_reason reason) override {
    const auto net = net_.lock();
    if (!net || std::exchange(disconnected_, true)
        || reason == net::close_reason::timed_out)
      return; // the heartbeats are missed
    for (std::size_t side : {0, 1}) {
      const auto& path = sides_[side].outgoing;
      net->schedule(
        net->now() + net->sample_latency(path.receiver, path.sender),
        [self = weak_from_this(), side, reason] {
          if (const auto it = self.lock())
            it->finish_when_running(side, {reason, "the connection was cut"});
        });
    }
  }

  std::chrono::milliseconds silence(std::size_t side) const {
    const auto net = net_.lock();
    const auto& detector = sides_[side].detector;
    return net && detector ? detector->silence(steady_time(*net))
                           : std::chrono::milliseconds{0};
  }

private:
  struct channel_state {
    std::shared_ptr<net::channel_listener> listener;
    /// Events that no listener has received.
    std::vector<multiplexer::event> pending;
  };
  struct connection_side {
    multiplexer mux{net::frame_limits{}};
    network_core::direction outgoing;
    std::map<std::uint32_t, channel_state> channels; ///< By channel number.
    std::optional<multiplexer::closed_state> closed;
    std::vector<std::function<void(net::close_reason, const std::string&)>>
      closed_callbacks;
    /// Detects that the peer is silent. None: there are no heartbeats.
    std::optional<net::failure_detector> detector;
    /// True if the process is paused and sends a heartbeat when it goes on.
    bool heartbeat_due = false;
  };

  /// The virtual time as the time point that the failure detector takes.
  static net::failure_detector::clock::time_point
  steady_time(const network_core& net) {
    return net::failure_detector::clock::time_point{net.now()};
  }

  void schedule_tick(network_core& net) {
    net.schedule(net.now() + net.options.heartbeat_interval,
                 [self = weak_from_this()] {
                   if (const auto it = self.lock())
                     it->tick();
                 });
  }

  /// Sends the heartbeats of both sides, and ends a side whose peer is silent.
  /// A process that is paused sends its heartbeat as soon as it goes on, as a
  /// real one does, whose timer has expired then.
  void tick() {
    const auto net = net_.lock();
    if (!net)
      return;
    for (std::size_t side : {0, 1}) {
      auto& state = sides_[side];
      if (!net->processes[state.outgoing.sender].paused) {
        if (!end_if_silent(*net, side))
          send_heartbeat(side);
      } else if (!std::exchange(state.heartbeat_due, true)) {
        net->when_running(state.outgoing.sender,
                          [self = weak_from_this(), side] {
                            if (const auto it = self.lock())
                              it->send_heartbeat(side);
                          });
      }
    }
    if (!sides_[0].closed || !sides_[1].closed)
      schedule_tick(*net);
  }

  bool end_if_silent(const network_core& net, std::size_t side) {
    auto& state = sides_[side];
    const auto now = steady_time(net);
    state.detector->tick(now);
    if (state.detector->silence(now) < net.options.heartbeat_timeout)
      return false;
    finish(side, {net::close_reason::timed_out,
                  silence_text(net.options.heartbeat_timeout)});
    return true;
  }

  void send_heartbeat(std::size_t side) {
    auto& state = sides_[side];
    state.heartbeat_due = false;
    if (state.closed)
      return;
    state.mux.send_heartbeat();
    flush(side);
  }

  void flush(std::size_t side) {
    auto& state = sides_[side];
    const auto net = net_.lock();
    while (!state.mux.output().empty()) {
      const auto front = state.mux.output().front();
      std::vector<std::byte> bytes(front.begin(), front.end());
      state.mux.output().written(bytes.size());
      if (!net || disconnected_ || state.closed)
        continue;
      const auto arrival = net->send(state.outgoing, bytes.size()).last_byte;
      net->schedule(arrival, [self = weak_from_this(), side, bytes] {
        if (const auto it = self.lock(); it && !it->disconnected_)
          it->receive_when_running(1 - side, bytes);
      });
    }
  }

  void receive_when_running(std::size_t side,
                            const std::vector<std::byte>& bytes) {
    if (const auto net = net_.lock())
      net->when_running(sides_[side].outgoing.sender,
                        [self = weak_from_this(), side, bytes] {
                          if (const auto it = self.lock())
                            it->receive(side, bytes);
                        });
  }

  void finish_when_running(std::size_t side,
                           const multiplexer::closed_state& reason) {
    if (const auto net = net_.lock())
      net->when_running(sides_[side].outgoing.sender,
                        [self = weak_from_this(), side, reason] {
                          if (const auto it = self.lock())
                            it->finish(side, reason);
                        });
  }

  void receive(std::size_t side, const std::vector<std::byte>& bytes) {
    auto& state = sides_[side];
    if (state.closed)
      return;
    if (const auto net = net_.lock(); net && state.detector)
      state.detector->received(steady_time(*net));
    std::vector<multiplexer::event> events;
    const auto end = state.mux.receive(bytes, events);
    for (auto& e : events) {
      const auto channel = e.channel;
      state.channels[channel].pending.push_back(std::move(e));
      deliver(side, channel);
    }
    flush(side);
    if (!end)
      return;
    // The other side has sent a `goaway` and only waits for this side to end
    // the connection, so both sides end.
    if (end->announced)
      finish_when_running(1 - side, *end);
    finish(side, *end);
  }

  void deliver(std::size_t side, std::uint32_t channel) {
    auto& state = sides_[side].channels[channel];
    const auto listener = state.listener;
    if (!listener)
      return;
    auto events = std::exchange(state.pending, {});
    const bool ended = !events.empty() && !events.back().received;
    if (const auto& over = sides_[side].closed; over && !ended)
      events.push_back({channel, {}, over->reason, over->cause});
    if (!events.empty() && !events.back().received)
      sides_[side].channels.erase(channel);
    for (auto& e : events)
      if (e.received)
        listener->on_frame(std::move(*e.received));
      else
        listener->on_closed(e.cause, e.reason);
  }

  void finish(std::size_t side, const multiplexer::closed_state& reason) {
    auto& state = sides_[side];
    if (state.closed)
      return;
    state.closed = reason;
    std::vector<std::uint32_t> channels;
    for (const auto& [channel, of] : state.channels)
      channels.push_back(channel);
    for (const auto channel : channels)
      deliver(side, channel);
    for (const auto& fn : std::exchange(state.closed_callbacks, {}))
      fn(reason.cause, reason.reason);
  }

  std::weak_ptr<network_core> net_;
  connection_side sides_[2];
  bool disconnected_ = false;
};

class simulated_channel final : public net::channel {
public:
  simulated_channel(std::shared_ptr<simulated_connection> connection,
                    std::size_t side, std::uint32_t channel)
    : connection_{std::move(connection)}, side_{side}, channel_{channel} {}

  void set_listener(std::shared_ptr<net::channel_listener> listener) override {
    connection_->set_listener(side_, channel_, std::move(listener));
  }
  bool post(net::frame&& frame) override {
    return connection_->post(side_, channel_, std::move(frame));
  }
  bool has_ended() const override {
    return connection_->has_ended(side_, channel_);
  }
  void consumed(net::priority x) override {
    connection_->consumed(side_, channel_, x);
  }
  const net::frame_limits& limits() const override {
    return connection_->limits();
  }
  std::size_t credits(net::priority x) const override {
    return net::credits_of(x);
  }
  void close(const std::string& why) override {
    connection_->close(side_, channel_, why);
  }

private:
  const std::shared_ptr<simulated_connection> connection_;
  const std::size_t side_;
  const std::uint32_t channel_;
};

class simulated_connection_end final : public net::connection {
public:
  simulated_connection_end(std::shared_ptr<simulated_connection> connection,
                           std::size_t side, const net::hello& peer)
    : connection_{std::move(connection)}, side_{side}, peer_{peer} {}

  std::shared_ptr<net::channel> open(std::uint32_t channel) override {
    connection_->open(side_, channel);
    return std::make_shared<simulated_channel>(connection_, side_, channel);
  }
  const net::hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override {
    return connection_->silence(side_);
  }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)> fn) override {
    connection_->on_closed(side_, std::move(fn));
  }
  bool ended_by_close() const override {
    return connection_->ended_by_close(side_);
  }
  void close(const std::string& why) override {
    connection_->send_goaway(side_, why);
  }

private:
  const std::shared_ptr<simulated_connection> connection_;
  const std::size_t side_;
  const net::hello peer_;
};

} // namespace

std::shared_ptr<simulated_link>
make_simulated_connection(const std::shared_ptr<network_core>& net,
                          const network_core::process_pair& processes) {
  const auto out = std::make_shared<simulated_connection>(net, processes);
  out->start();
  return out;
}

std::shared_ptr<net::connection>
make_connection_end(const std::shared_ptr<simulated_link>& link,
                    std::size_t side, const net::hello& peer) {
  return std::make_shared<simulated_connection_end>(
    std::static_pointer_cast<simulated_connection>(link), side, peer);
}

} // namespace troupe::simulation
