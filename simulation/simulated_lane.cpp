#include "troupe/simulation/simulated_network_core.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <stdexcept>

// Simulated lanes: a bounded queue of packets in each direction.

namespace troupe::simulation {

namespace {

class lane_cable final : public cable,
                         public std::enable_shared_from_this<lane_cable> {
public:
  lane_cable(const std::shared_ptr<network_core>& by,
             const network_core::pair& between)
    : net_{by}, viewed_{by->chance()} {
    ways_[0].on = {between.first, between.second};
    ways_[1].on = {between.second, between.first};
  }

  /// Packet that one side has sent.
  struct parcel {
    net::parcel_head head;
    std::vector<std::byte> bytes;
  };
  struct way {
    network_core::road on;
    std::deque<parcel> all; ///< Packets that were sent and not popped.
    std::size_t begun = 0;  ///< Number of `packets` whose header has arrived.
    std::size_t whole =
      0;                  ///< Number of `packets` that have arrived completely.
    std::size_t used = 0; ///< Slots that the sender takes for full.
    std::optional<net::lane::end> end; ///< Closed state, as the sender sees it.
  };

  way& from(std::size_t side) { return ways_[side]; }
  bool viewed() const { return viewed_; }

  bool has_room(std::size_t side) const {
    const auto net = net_.lock();
    const auto& x = ways_[side];
    return net && !x.end && x.used < net->how.parcels;
  }

  /// @pre the lane has a free slot.
  void post(std::size_t side, const net::parcel_head& head,
            std::span<const std::byte> bytes) {
    auto& x = ways_[side];
    ++x.used;
    const auto net = net_.lock();
    if (gone_ || !net)
      return;
    x.all.push_back({head, {bytes.begin(), bytes.end()}});
    auto trip = net->send(x.on, head.size() + bytes.size());
    if (viewed_) // shared memory shows a packet only when it is complete
      trip.first = trip.last;
    later(*net, trip.first, side, &way::begun);
    later(*net, trip.last, side, &way::whole);
  }

  void pop(std::size_t side) {
    auto& x = ways_[1 - side];
    x.all.pop_front();
    --x.begun, --x.whole;
    const auto net = net_.lock();
    if (gone_ || !net)
      return;
    net->at(net->now() + net->moment(x.on.to, x.on.from),
            [self = weak_from_this(), side] {
              const auto it = self.lock();
              if (!it || it->gone_)
                return;
              auto& x = it->ways_[1 - side];
              --x.used;
              it->tell(x.on.from);
            });
  }

  void cut(net::ending how) override {
    const auto net = net_.lock();
    if (!net || std::exchange(gone_, true))
      return;
    for (std::size_t side : {0, 1}) {
      auto& x = ways_[side];
      x.all.resize(x.begun);
      if (how != net::ending::dead)
        continue;
      net->at(net->now() + net->moment(x.on.to, x.on.from),
              [self = weak_from_this(), side] {
                if (const auto it = self.lock()) {
                  auto& x = it->ways_[side];
                  x.end = {net::ending::dead, "the lane was cut"};
                  it->tell(x.on.from);
                }
              });
    }
  }

private:
  void later(network_core& net, network_core::time when, std::size_t side,
             std::size_t way::*count) {
    net.at(when, [self = weak_from_this(), side, count] {
      const auto it = self.lock();
      if (!it || it->gone_)
        return;
      auto& x = it->ways_[side];
      ++(x.*count);
      it->tell(x.on.to);
    });
  }

  void tell(std::uint32_t process) const {
    if (const auto net = net_.lock())
      net->news_of(process);
  }

  std::weak_ptr<network_core> net_;
  way ways_[2]; ///< By the sending side.
  const bool viewed_;
  bool gone_ = false;
};

class lane_end final : public net::lane {
public:
  lane_end(std::shared_ptr<lane_cable> by, std::size_t side)
    : by_{std::move(by)}, side_{side} {}

  std::span<std::byte> room() override {
    if (!by_->has_room(side_))
      return {};
    if (!room_)
      room_ = std::make_unique<block>();
    return room_->bytes;
  }
  void post(const net::parcel_head& head, std::size_t bytes) override {
    by_->post(side_, head, std::span{room_->bytes}.first(bytes));
  }
  bool post(const net::parcel_head& head,
            std::span<const std::byte> bytes) override {
    if (!by_->has_room(side_))
      return false;
    by_->post(side_, head, bytes);
    return true;
  }
  bool flush() override { return true; }

  const net::parcel_head* front() override {
    return in().begun > 0 ? &in().all.front().head : nullptr;
  }
  std::size_t front_bytes() const override {
    return in().all.front().bytes.size();
  }
  std::span<const std::byte> view() override {
    return by_->viewed() ? std::span<const std::byte>{in().all.front().bytes}
                         : std::span<const std::byte>{};
  }
  bool fetch(std::span<std::byte> into) override {
    if (in().whole == 0)
      return false;
    const auto& bytes = in().all.front().bytes;
    std::memcpy(into.data(), bytes.data(), bytes.size());
    return true;
  }
  void pop() override { by_->pop(side_); }

  bool before_sleep(std::vector<pollfd>&) override {
    throw std::logic_error("a thread would block on a simulated lane");
  }
  void after_sleep() override {}
  const std::optional<end>& ended() override { return by_->from(side_).end; }

private:
  struct alignas(64) block {
    std::array<std::byte, net::most_parcel_bytes> bytes;
  };
  lane_cable::way& in() const { return by_->from(1 - side_); }

  const std::shared_ptr<lane_cable> by_;
  const std::size_t side_;
  std::unique_ptr<block> room_;
};

} // namespace

std::shared_ptr<cable> make_lane(const std::shared_ptr<network_core>& by,
                                 const network_core::pair& between) {
  return std::make_shared<lane_cable>(by, between);
}

std::unique_ptr<net::lane> end_of_lane(const std::shared_ptr<cable>& x,
                                       std::size_t side) {
  return std::make_unique<lane_end>(std::static_pointer_cast<lane_cable>(x),
                                    side);
}

} // namespace troupe::simulation
