#include "troupe/tests/actors/collectives/lane_backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Number of threads that sleep on the lanes of a process now, and the highest
/// number so far.
struct sleeper_count {
  int now = 0, max = 0;
};

/// Numbers of the events on a lane of process 0.
struct lane_events {
  sleeper_count sleepers;
  int reads = 0; ///< Number of times that a thread looked for a packet.
};

/// A lane that counts its events. The counts need no lock, because the backend
/// holds its lock while it calls a lane.
class counting_lane final : public net::lane {
public:
  counting_lane(std::unique_ptr<net::lane> lane, lane_events& events)
    : lane_{std::move(lane)}, events_{events}, count_{events.sleepers} {}

  std::span<std::byte> reserve() override { return lane_->reserve(); }
  void post(const net::packet_header& header, std::size_t bytes) override {
    lane_->post(header, bytes);
  }
  bool post(const net::packet_header& header,
            std::span<const std::byte> bytes) override {
    return lane_->post(header, bytes);
  }
  bool post_zero_copy(const net::packet_header& header,
                      std::span<const std::byte> bytes) override {
    return lane_->post_zero_copy(header, bytes);
  }
  bool flush() override { return lane_->flush(); }
  const net::packet_header* front() override {
    ++events_.reads;
    return lane_->front();
  }
  std::size_t front_bytes() const override { return lane_->front_bytes(); }
  std::span<const std::byte> view() override { return lane_->view(); }
  bool fetch(std::span<std::byte> into) override { return lane_->fetch(into); }
  void pop() override { lane_->pop(); }
  bool arm(std::vector<pollfd>& watched) override {
    count_.max = std::max(count_.max, ++count_.now);
    return lane_->arm(watched);
  }
  void disarm() override {
    --count_.now;
    lane_->disarm();
  }
  const std::optional<closed_state>& closed() override {
    return lane_->closed();
  }

private:
  const std::unique_ptr<net::lane> lane_;
  lane_events& events_;
  sleeper_count& count_;
};

/// Lanes from process 0 to process 1. The first one counts its events.
std::vector<peer_lanes> counting_lanes(lane_events& events,
                                       net::testing::connected_lanes& first,
                                       net::testing::connected_lanes& second) {
  std::vector<peer_lanes> lanes(2);
  lanes[1] = net::testing::list_of(
    std::make_unique<counting_lane>(std::move(first.left), events),
    std::move(second.left));
  return lanes;
}

} // namespace

TEST(LaneBackend, OneThreadAtATimeSleepsOnTheLanes) {
  lane_events events;
  auto contributions = net::testing::make_lanes("stream");
  auto results = net::testing::make_lanes("stream");
  lane_backend backend{local_placement{placement::contiguous({3, 1}), 0},
                       counting_lanes(events, contributions, results)};
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 3; ++r) {
    backend.begin_generation(r, 1);
    backend.begin_step(r, 0);
  }
  for (std::uint32_t r = 0; r < 3; ++r)
    threads.emplace_back([&backend, r] {
      backend.contribute(r, 0, tensor::full({5}, 1));
      for (int waits = 0; waits < 40; ++waits) // process 1 never contributes
        backend.wait(r, {lane_backend::wait_condition::kind::sum, 0}, true);
    });
  for (auto& one : threads)
    one.join();
  EXPECT_EQ(events.sleepers.max, 1);
  EXPECT_EQ(events.sleepers.now, 0);
}

TEST(LaneBackend, ALongWaitPollsOnceIfThreadsShareCores) {
  lane_events events;
  auto contributions = net::testing::make_lanes("stream");
  auto results = net::testing::make_lanes("stream");
  lane_backend backend{
    local_placement{placement::contiguous({1, 1}), 0},
    counting_lanes(events, contributions, results),
    {.spin_timeout = std::chrono::milliseconds{20}, .shares_cores = true}};
  backend.begin_generation(0, 1);
  backend.begin_step(0, 0);
  backend.contribute(0, 0, tensor::full({5}, 1));
  const auto reads_of_a_wait = [&] {
    const auto before = events.reads;
    backend.wait(0, {lane_backend::wait_condition::kind::sum, 0}, true);
    return events.reads - before;
  };
  EXPECT_GT(reads_of_a_wait(), 0);
  // Process 1 never contributes, so the other waits only sleep.
  for (int i = 0; i < 5; ++i)
    EXPECT_LE(reads_of_a_wait(), 8);
}
