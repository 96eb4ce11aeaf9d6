#include "troupe/tests/actors/collectives/lane_backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Number of threads that sleep on the lanes of a process now, and its maximum.
struct sleepers {
  int now = 0, most = 0;
};

/// A lane that counts the threads that sleep on it. The backend holds its lock
/// while it calls `arm` and `disarm`.
class counting_lane final : public net::lane {
public:
  counting_lane(std::unique_ptr<net::lane> on, sleepers& count)
    : on_{std::move(on)}, count_{count} {}

  std::span<std::byte> room() override { return on_->room(); }
  void post(const net::parcel_head& x, std::size_t bytes) override {
    on_->post(x, bytes);
  }
  bool post(const net::parcel_head& x,
            std::span<const std::byte> bytes) override {
    return on_->post(x, bytes);
  }
  bool lend(const net::parcel_head& x,
            std::span<const std::byte> bytes) override {
    return on_->lend(x, bytes);
  }
  bool flush() override { return on_->flush(); }
  const net::parcel_head* front() override { return on_->front(); }
  std::size_t front_bytes() const override { return on_->front_bytes(); }
  std::span<const std::byte> view() override { return on_->view(); }
  bool fetch(std::span<std::byte> into) override { return on_->fetch(into); }
  void pop() override { on_->pop(); }
  bool before_sleep(std::vector<pollfd>& watched) override {
    count_.most = std::max(count_.most, ++count_.now);
    return on_->before_sleep(watched);
  }
  void after_sleep() override {
    --count_.now;
    on_->after_sleep();
  }
  const std::optional<end>& ended() override { return on_->ended(); }

private:
  const std::unique_ptr<net::lane> on_;
  sleepers& count_;
};

} // namespace

TEST(LaneBackend, OneThreadAtATimeSleepsOnTheLanes) {
  sleepers count;
  auto parts = net::testing::make_lanes("stream");
  auto sums = net::testing::make_lanes("stream");
  std::vector<peer_lanes> lanes(2);
  lanes[1] = {std::make_unique<counting_lane>(std::move(parts.left), count),
              std::move(sums.left)};
  data_plane on{exchange::layout{{0, 3, 4}, 0}, std::move(lanes)};
  std::vector<std::thread> all;
  for (std::uint32_t r = 0; r < 3; ++r) {
    on.seat(r, 1);
    on.enter(r, 0);
  }
  for (std::uint32_t r = 0; r < 3; ++r)
    all.emplace_back([&on, r] {
      on.contribute(r, 0, tensor::full({5}, 1));
      for (int naps = 0; naps < 40; ++naps) // process 1 never contributes
        on.wait(r, {data_plane::wish::kind::sum, 0}, true);
    });
  for (auto& one : all)
    one.join();
  EXPECT_EQ(count.most, 1);
  EXPECT_EQ(count.now, 0);
}
