#include "troupe/simulation/simulated_lane.hpp"

#include "troupe/simulation/simulated_network_core.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <stdexcept>

// Simulated lanes: a bounded queue of packets in each direction.

namespace troupe::simulation {

namespace {

class simulated_lane final
  : public simulated_link,
    public std::enable_shared_from_this<simulated_lane> {
public:
  simulated_lane(const std::shared_ptr<network_core>& net,
                 const network_core::process_pair& between, bool ends_with_end)
    : net_{net},
      viewed_in_place_{net->flip_coin()},
      ends_with_end_{ends_with_end} {
    directions_[0].direction = {between.first, between.second};
    directions_[1].direction = {between.second, between.first};
  }

  /// Packet that one side has sent.
  struct packet {
    net::packet_header head;
    std::vector<std::byte> bytes;
  };
  struct direction_state {
    network_core::direction direction;
    std::deque<packet> packets; ///< Packets that were sent and not popped.
    /// Number of `packets` whose header has arrived.
    std::size_t headers_arrived = 0;
    /// Number of `packets` that have arrived completely.
    std::size_t packets_arrived = 0;
    /// Number of used slots, as known to the sender.
    std::size_t slots_used = 0;
    /// How the lane ended, as known to the sender. None: the lane is open.
    std::optional<net::lane::closed_state> closed;
  };

  direction_state& sent_by(std::size_t side) { return directions_[side]; }
  bool is_viewed_in_place() const { return viewed_in_place_; }

  bool has_free_slot(std::size_t side) const {
    const auto net = net_.lock();
    const auto& outgoing = directions_[side];
    return net && !outgoing.closed
           && outgoing.slots_used < net->options.lane_capacity;
  }

  /// @pre the lane has a free slot.
  void send(std::size_t side, const net::packet_header& head,
            std::span<const std::byte> bytes) {
    auto& outgoing = directions_[side];
    ++outgoing.slots_used;
    const auto net = net_.lock();
    if (disconnected_ || !net)
      return;
    outgoing.packets.push_back({head, {bytes.begin(), bytes.end()}});
    auto trip = net->send(outgoing.direction, head.size() + bytes.size());
    if (viewed_in_place_) // shared memory shows complete packets only
      trip.first_byte = trip.last_byte;
    count_later(*net, trip.first_byte, side, &direction_state::headers_arrived);
    count_later(*net, trip.last_byte, side, &direction_state::packets_arrived);
  }

  void pop(std::size_t side) {
    auto& incoming = directions_[1 - side];
    incoming.packets.pop_front();
    --incoming.headers_arrived, --incoming.packets_arrived;
    const auto net = net_.lock();
    if (disconnected_ || !net)
      return;
    net->schedule(net->now()
                    + net->sample_latency(incoming.direction.receiver,
                                          incoming.direction.sender),
                  [self = weak_from_this(), side] {
                    const auto lane = self.lock();
                    if (!lane || lane->disconnected_)
                      return;
                    auto& x = lane->directions_[1 - side];
                    --x.slots_used;
                    lane->notify(x.direction.sender);
                  });
  }

  void disconnect(net::close_reason reason) override {
    const auto net = net_.lock();
    if (!net || std::exchange(disconnected_, true))
      return;
    for (std::size_t side : {0, 1}) {
      auto& outgoing = directions_[side];
      outgoing.packets.resize(outgoing.headers_arrived);
      if (reason != net::close_reason::closed)
        continue;
      net->schedule(
        net->now()
          + net->sample_latency(outgoing.direction.receiver,
                                outgoing.direction.sender),
        [self = weak_from_this(), side] {
          if (const auto it = self.lock()) {
            auto& x = it->directions_[side];
            x.closed = {net::close_reason::closed, "the lane was cut"};
            it->notify(x.direction.sender);
          }
        });
    }
  }

  /// One end is destroyed. The other end is notified when it has received what
  /// this one has sent before.
  void on_end_destroyed(std::size_t side) {
    const auto net = net_.lock();
    if (!ends_with_end_ || disconnected_ || !net)
      return;
    const auto& path = directions_[side].direction;
    const auto arrival =
      std::max(path.last_arrival,
               net->now() + net->sample_latency(path.sender, path.receiver));
    net->schedule(arrival, [self = weak_from_this(), side] {
      const auto lane = self.lock();
      if (!lane || lane->disconnected_)
        return;
      auto& other = lane->directions_[1 - side];
      other.closed = {net::close_reason::closed, "the lane was closed"};
      lane->notify(other.direction.sender);
    });
  }

private:
  void count_later(network_core& net, network_core::time arrival,
                   std::size_t side, std::size_t direction_state::*count) {
    net.schedule(arrival, [self = weak_from_this(), side, count] {
      const auto lane = self.lock();
      if (!lane || lane->disconnected_)
        return;
      auto& x = lane->directions_[side];
      ++(x.*count);
      lane->notify(x.direction.receiver);
    });
  }

  void notify(std::uint32_t process) const {
    if (const auto net = net_.lock())
      net->notify(process);
  }

  std::weak_ptr<network_core> net_;
  direction_state directions_[2]; ///< Indexed by the sending side.
  const bool viewed_in_place_;
  const bool ends_with_end_;
  bool disconnected_ = false;
};

class simulated_lane_end final : public net::lane {
public:
  simulated_lane_end(std::shared_ptr<simulated_lane> lane, std::size_t side)
    : lane_{std::move(lane)}, side_{side} {}
  ~simulated_lane_end() override { lane_->on_end_destroyed(side_); }

  std::span<std::byte> reserve() override {
    if (!lane_->has_free_slot(side_))
      return {};
    if (!buffer_)
      buffer_ = std::make_unique<packet_buffer>();
    return buffer_->bytes;
  }
  void post(const net::packet_header& head, std::size_t bytes) override {
    lane_->send(side_, head, std::span{buffer_->bytes}.first(bytes));
  }
  bool post(const net::packet_header& head,
            std::span<const std::byte> bytes) override {
    if (!lane_->has_free_slot(side_))
      return false;
    lane_->send(side_, head, bytes);
    return true;
  }
  bool flush() override { return true; }

  const net::packet_header* front() override {
    return incoming().headers_arrived > 0 ? &incoming().packets.front().head
                                          : nullptr;
  }
  std::size_t front_bytes() const override {
    return incoming().packets.front().bytes.size();
  }
  std::span<const std::byte> view() override {
    return lane_->is_viewed_in_place()
             ? std::span<const std::byte>{incoming().packets.front().bytes}
             : std::span<const std::byte>{};
  }
  bool fetch(std::span<std::byte> into) override {
    if (incoming().packets_arrived == 0)
      return false;
    const auto& bytes = incoming().packets.front().bytes;
    if (!bytes.empty()) // `into` may be null then
      std::memcpy(into.data(), bytes.data(), bytes.size());
    return true;
  }
  void pop() override { lane_->pop(side_); }

  bool arm(std::vector<pollfd>&) override {
    throw std::logic_error("a thread would block on a simulated lane");
  }
  void disarm() override {}
  const std::optional<closed_state>& closed() override {
    return lane_->sent_by(side_).closed;
  }

private:
  struct alignas(64) packet_buffer {
    std::array<std::byte, net::max_packet_bytes> bytes;
  };
  simulated_lane::direction_state& incoming() const {
    return lane_->sent_by(1 - side_);
  }

  const std::shared_ptr<simulated_lane> lane_;
  const std::size_t side_;
  std::unique_ptr<packet_buffer> buffer_;
};

} // namespace

std::shared_ptr<simulated_link>
make_simulated_lane(const std::shared_ptr<network_core>& net,
                    const network_core::process_pair& processes,
                    bool ends_with_end) {
  return std::make_shared<simulated_lane>(net, processes, ends_with_end);
}

std::unique_ptr<net::lane>
make_lane_end(const std::shared_ptr<simulated_link>& link, std::size_t side) {
  return std::make_unique<simulated_lane_end>(
    std::static_pointer_cast<simulated_lane>(link), side);
}

} // namespace troupe::simulation
