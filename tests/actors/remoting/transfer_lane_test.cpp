#include "troupe/actors/core/shared_arena.hpp"
#include "troupe/actors/remoting/transfer_lane.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace troupe;
using namespace troupe::tensor_transfer;
using troupe::tensor_transfer::testing::bytes_tensor;
using troupe::tensor_transfer::testing::left_ends;
using troupe::tensor_transfer::testing::right_ends;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

/// Makes both ends of a lane: "shm", "stream", "tls", or "arena", which is
/// "shm" with an arena that holds the tensors. The two simulated processes
/// share it, because both are in this process.
net::testing::connected_lanes make_lanes(const std::string& kind) {
  if (kind != "arena")
    return net::testing::make_lanes(kind);
  const net::testing::shm_contexts both;
  for (const auto& x : {both.left, both.right}) {
    x->own_arena = shared_arena();
    x->peer_arena.emplace(x->own_arena->descriptor());
  }
  return net::testing::shm_lanes_over(both, 0);
}

/// Two processes with a lane for tensors between them.
struct lane_pair_of_kind {
  explicit lane_pair_of_kind(const std::string& kind,
                             const receiver_limits& limits = {})
    : lane_pair_of_kind{make_lanes(kind), limits} {}

  lane_pair_of_kind(net::testing::connected_lanes lanes,
                    const receiver_limits& limits)
    : left{std::move(lanes.left), left_ends, limits},
      right{std::move(lanes.right), right_ends, limits} {}

  /// Lets both processes run until nothing has moved for a while.
  void settle() {
    for (int idle = 0; idle < 3; ++idle) {
      run(left, at_left);
      run(right, at_right);
      if (left.wait(std::chrono::milliseconds{10})
          || right.wait(std::chrono::milliseconds{10}))
        idle = left.failure() || right.failure() ? idle : -1;
    }
  }

  static void run(transfer_lane& x, std::vector<arrived>& into) {
    for (auto& effect : x.progress())
      if (auto* tensors = std::get_if<arrived>(&effect))
        into.push_back(std::move(*tensors));
  }

  transfer_lane left, right;
  std::vector<arrived> at_left, at_right;
};

struct TransferLane : ::testing::TestWithParam<std::string> {};

} // namespace

TEST_P(TransferLane, CarriesTensorsBothWaysBitForBit) {
  lane_pair_of_kind pair{GetParam()};
  pair.left.receiver().open_channel(1);
  pair.right.receiver().open_channel(1);
  const auto a = bytes_tensor(9 * mib + 5, 1), b = bytes_tensor(3 * mib, 2);
  pair.left.sender().send(1, 1, {a, b});
  pair.right.sender().send(1, 2, {b});
  pair.settle();
  ASSERT_EQ(pair.at_right.size(), 1u);
  ASSERT_EQ(pair.at_left.size(), 1u);
  EXPECT_TRUE(same_bits(pair.at_right[0].tensors[0], a));
  EXPECT_TRUE(same_bits(pair.at_right[0].tensors[1], b));
  EXPECT_TRUE(same_bits(pair.at_left[0].tensors[0], b));
}

TEST_P(TransferLane, AStoppedProcessStopsTheSenderAtItsWindow) {
  auto lanes = make_lanes(GetParam());
  transfer_lane left{std::move(lanes.left), left_ends};
  receiver right{right_ends, {.window_bytes = mib}};
  right.open_channel(1);
  left.sender().send(1, 1, {bytes_tensor(64 * mib)});
  left.progress();
  net::packet_header header{};
  ASSERT_TRUE(net::testing::take_eventually(*lanes.right, header));
  right.begin(read(header), 0);
  const auto grant = right.next();
  ASSERT_TRUE(grant);
  ASSERT_TRUE(net::testing::post_eventually(*lanes.right, write(*grant), {}));
  // The receiving process handles no more packets. All that the sender sends is
  // counted and thrown away.
  std::size_t bytes = 0;
  std::vector<std::byte> payload(net::max_packet_bytes);
  for (int idle = 0; idle < 100; ++idle) {
    left.progress();
    if (bytes < mib && !lanes.right->front())
      net::testing::wait_for_event(*lanes.right);
    if (!lanes.right->front() || !lanes.right->fetch(payload))
      continue;
    bytes += read(*lanes.right->front()).kind == packet_kind::chunk
               ? lanes.right->front_bytes()
               : 0;
    lanes.right->pop();
    idle = 0;
  }
  EXPECT_EQ(bytes, mib);
  EXPECT_EQ(left.sender().held_bytes(), 64 * mib);
  EXPECT_EQ(right.allocated_bytes(), 0u); // it has read no spec
}

TEST_P(TransferLane, AStoppedRoleStopsTheSenderAndNoOtherRole) {
  const receiver_limits limits{.max_channel_bytes = 40 * mib};
  lane_pair_of_kind pair{GetParam(), limits};
  pair.right.receiver().open_channel(1);
  pair.right.receiver().open_channel(2);
  for (std::uint64_t i = 0; i < 16; ++i) // 256 MiB for a role that stopped
    pair.left.sender().send(1, i, {bytes_tensor(16 * mib, i)});
  pair.left.sender().send(2, 99, {bytes_tensor(mib)});
  pair.settle();
  ASSERT_EQ(pair.at_right.size(), 3u);
  EXPECT_EQ(pair.right.receiver().allocated_bytes(), 33 * mib);
  EXPECT_EQ(pair.left.sender().held_bytes(), 14 * 16 * mib);
  // A small tensor to the other role still passes.
  for (const auto& x : pair.at_right)
    if (x.channel == 2)
      pair.right.receiver().release(x.transfer);
  pair.left.sender().send(2, 100, {bytes_tensor(8)});
  pair.settle();
  ASSERT_EQ(pair.at_right.size(), 4u);
  EXPECT_EQ(pair.at_right[3].message, 100u);
  EXPECT_LE(pair.right.receiver().reserved_bytes(),
            limits.max_channel_bytes + mib);
}

TEST_P(TransferLane, WorksBetweenTwoThreadsThatWaitForEvents) {
  constexpr std::size_t count = 8;
  lane_pair_of_kind pair{GetParam(), {.max_channel_bytes = 20 * mib}};
  std::atomic<bool> over = false;
  std::thread other{[&] {
    pair.right.receiver().open_channel(1);
    const auto deadline =
      std::chrono::steady_clock::now() + net::testing::test_timeout;
    while (!over) {
      std::vector<arrived> news;
      pair.run(pair.right, news);
      for (const auto& x : news) { // the role reads each message at once
        pair.right.receiver().release(x.transfer);
        pair.at_right.push_back(x);
      }
      if (std::chrono::steady_clock::now() > deadline)
        break;
      pair.right.wait(std::chrono::milliseconds{20});
    }
  }};
  for (std::size_t i = 0; i < count; ++i)
    pair.left.sender().send(1, i, {bytes_tensor(8 * mib, i)});
  const auto deadline =
    std::chrono::steady_clock::now() + net::testing::test_timeout;
  while (pair.left.sender().transfers() > 0
         && std::chrono::steady_clock::now() < deadline) {
    pair.left.progress();
    pair.left.wait(std::chrono::milliseconds{20});
  }
  over = true;
  other.join();
  ASSERT_EQ(pair.at_right.size(), count);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_TRUE(
      same_bits(pair.at_right[i].tensors[0], bytes_tensor(8 * mib, i)));
}

TEST_P(TransferLane, EndsOnAPacketThatViolatesTheProtocol) {
  auto lanes = make_lanes(GetParam());
  packet_header header;
  header.generation = left_ends.generation;
  header.incarnation = left_ends.incarnation;
  header.transfer = 1;
  header.kind = packet_kind::chunk; // of a transfer that was not offered
  const std::vector<std::byte> payload(1000);
  ASSERT_TRUE(lanes.left->post(write(header), payload));
  transfer_lane right{std::move(lanes.right), right_ends};
  while (!right.failure()) {
    right.progress();
    ASSERT_TRUE(right.wait(net::testing::test_timeout));
  }
  EXPECT_NE(right.failure()->find("not offered"), std::string::npos);
  EXPECT_TRUE(right.progress().empty());
}

TEST_P(TransferLane, DiscardsPacketsOfAnotherIncarnation) {
  auto lanes = make_lanes(GetParam());
  packet_header old;
  old.generation = left_ends.generation;
  old.incarnation = left_ends.incarnation + 1;
  old.transfer = 1;
  old.kind = packet_kind::chunk;
  const std::vector<std::byte> payload(100'000);
  ASSERT_TRUE(lanes.left->post(write(old), payload));
  lane_pair_of_kind pair{std::move(lanes), {}};
  pair.right.receiver().open_channel(1);
  pair.left.sender().send(1, 7, {bytes_tensor(1000)});
  pair.settle();
  EXPECT_FALSE(pair.right.failure());
  EXPECT_EQ(pair.at_right.size(), 1u);
}

TEST_P(TransferLane, ReportsTheEndOfTheLane) {
  auto lanes = make_lanes(GetParam());
  transfer_lane left{std::move(lanes.left), left_ends};
  lanes.right.reset();
  while (!left.failure()) {
    left.progress();
    ASSERT_TRUE(left.failure() || left.wait(net::testing::test_timeout));
  }
  EXPECT_NE(left.failure()->find("closed"), std::string::npos);
}

TEST_P(TransferLane, ReportsTheEndOfTheLaneInTheMiddleOfAPacket) {
  auto lanes = make_lanes(GetParam());
  packet_header old; // the receiver discards its payload
  old.incarnation = left_ends.incarnation + 1;
  const std::vector<std::byte> payload(net::max_packet_bytes);
  ASSERT_TRUE(lanes.left->post(write(old), payload));
  lanes.left->post(write(old), payload); // fits into shared memory only
  lanes.left.reset();
  transfer_lane right{std::move(lanes.right), right_ends};
  const auto deadline =
    std::chrono::steady_clock::now() + net::testing::test_timeout;
  while (!right.failure() && std::chrono::steady_clock::now() < deadline) {
    right.progress();
    right.wait(net::testing::test_timeout);
  }
  ASSERT_TRUE(right.failure());
  EXPECT_NE(right.failure()->find("closed"), std::string::npos);
}

/// The sender posts all packets of a tensor and then ends the lane. From then
/// on it may change the elements, so a tensor in its arena does not arrive. One
/// that was copied into the slots does.
TEST(TransferLaneWithArena, DropsAPayloadThatItsSenderMayHaveChanged) {
  ASSERT_TRUE(shared_arena()); // all large tensors lie in it from now on
  for (const std::string kind : {"shm", "arena"}) {
    auto lanes = make_lanes(kind);
    auto left =
      std::make_unique<transfer_lane>(std::move(lanes.left), left_ends);
    transfer_lane right{std::move(lanes.right), right_ends};
    right.receiver().open_channel(1);
    {
      const auto sent = bytes_tensor(200'000, 3);
      ASSERT_NE(shared_arena()->offset_of({sent.raw(), sent.bytes()}), 0U);
      left->sender().send(1, 1, {sent});
    }
    std::vector<arrived> news;
    left->progress();                    // offers
    lane_pair_of_kind::run(right, news); // grants
    left->progress();                    // sends
    EXPECT_EQ(left->sender().held_bytes(), 200'000U) << "it has not arrived";
    left.reset();
    lane_pair_of_kind::run(right, news);
    EXPECT_EQ(news.size(), kind == "shm" ? 1U : 0U);
    while (!right.failure()) {
      right.wait(std::chrono::milliseconds{20});
      lane_pair_of_kind::run(right, news);
    }
    EXPECT_EQ(news.size(), kind == "shm" ? 1U : 0U);
  }
}

/// A transfer that is cancelled after it was sent can still arrive, so its
/// tensors are held until the peer has popped all packets.
TEST(TransferLaneWithArena,
     HoldsTheTensorsOfACancelledTransferUntilTheyAreRead) {
  auto lanes = make_lanes("arena");
  transfer_lane left{std::move(lanes.left), left_ends},
    right{std::move(lanes.right), right_ends};
  right.receiver().open_channel(1);
  auto sent = bytes_tensor(200'000, 3);
  const auto number = left.sender().send(1, 1, {sent});
  std::vector<arrived> news;
  left.progress();
  lane_pair_of_kind::run(right, news);
  left.progress();
  left.sender().cancel(number);
  left.progress();
  EXPECT_FALSE(sent.unique());
  lane_pair_of_kind::run(right, news);
  left.progress();
  EXPECT_TRUE(sent.unique());
  ASSERT_EQ(news.size(), 1U);
  EXPECT_TRUE(same_bits(news[0].tensors[0], sent));
}

INSTANTIATE_TEST_SUITE_P(Each, TransferLane,
                         ::testing::Values("shm", "stream", "tls", "arena"),
                         [](const auto& x) { return x.param; });
