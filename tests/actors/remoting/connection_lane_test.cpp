#include "troupe/actors/remoting/connection_lane.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::tensor_transfer;
using namespace troupe::tensor_transfer::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// The lane of a connection. The test is the peer: it has the other end of the
/// lane.
struct lane_with_peer {
  explicit lane_with_peer(
    const std::string& kind,
    std::chrono::milliseconds transfer_timeout = net::testing::test_timeout)
    : lane_with_peer{net::testing::make_lanes(kind), transfer_timeout} {}

  lane_with_peer(net::testing::connected_lanes lanes,
                 std::chrono::milliseconds transfer_timeout)
    : lane{std::make_shared<connection_lane>(connection_lane::options{
      .ends = right_ends, .transfer_timeout = transfer_timeout})},
      peer{std::move(lanes.left), left_ends},
      channel{lane->open(2)} {
    lane->start(std::move(lanes.right));
    channel->set_listener([this](tensor_channel::event&& x) {
      if (auto* tensors = std::get_if<arrived_tensors>(&x))
        arrivals.push_back(std::move(*tensors));
      else
        ends.push_back(std::get<lane_ended>(x));
    });
  }

  /// Runs both ends until the condition holds or the lane has ended.
  template <class Condition>
  void run_until(Condition holds) {
    const auto deadline =
      std::chrono::steady_clock::now() + net::testing::test_timeout;
    while (!closed && !holds() && std::chrono::steady_clock::now() < deadline) {
      peer.progress();
      closed = lane->run_until_idle();
      peer.wait(1ms);
    }
  }

  /// Runs both ends until the lane has ended. Returns the reason of a protocol
  /// error.
  std::string violation() {
    run_until([] { return false; });
    return closed && closed->cause == net::close_reason::protocol_error
             ? closed->reason
             : "";
  }

  std::shared_ptr<connection_lane> lane;
  transfer_lane peer;
  std::shared_ptr<tensor_channel> channel;
  std::vector<arrived_tensors> arrivals;
  std::vector<lane_ended> ends;
  std::optional<net::lane::closed_state> closed;
};

/// The offer of a tensor for channel 2.
packet_header offer_of_thousand_bytes() {
  packet_header header;
  header.generation = left_ends.generation;
  header.incarnation = left_ends.incarnation;
  header.transfer = 1;
  header.bytes = 1000;
  header.tensors = 1;
  header.channel = 2;
  return header;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct ConnectionLane : ::testing::TestWithParam<std::string> {};

} // namespace

TEST_P(ConnectionLane, PassesTensorsOfAChannelBothWays) {
  lane_with_peer pair{GetParam()};
  pair.peer.receiver().open_channel(2);
  pair.peer.sender().send(2, 5, {bytes_tensor(3 * mebibyte, 1)});
  pair.channel->send(6, {bytes_tensor(mebibyte, 2)});
  pair.run_until([&] {
    return !pair.arrivals.empty() && pair.peer.receiver().allocated_bytes() > 0;
  });
  ASSERT_EQ(pair.arrivals.size(), 1u);
  EXPECT_EQ(pair.arrivals[0].message, 5u);
  EXPECT_TRUE(
    same_bits(pair.arrivals[0].tensors[0], bytes_tensor(3 * mebibyte, 1)));
}

TEST_P(ConnectionLane, RefusesTensorsForAChannelThatWasClosed) {
  lane_with_peer pair{GetParam()};
  pair.channel->close();
  pair.peer.sender().send(2, 5, {bytes_tensor(mebibyte)});
  pair.run_until([&] { return pair.peer.sender().transfers() == 0; });
  EXPECT_EQ(pair.peer.sender().transfers(), 0u);
  EXPECT_EQ(pair.peer.sender().held_bytes(), 0u);
  EXPECT_FALSE(pair.closed);
  EXPECT_TRUE(pair.arrivals.empty());
}

TEST_P(ConnectionLane, EndsOnTensorsForAChannelThatDoesNotExist) {
  lane_with_peer pair{GetParam()};
  pair.peer.sender().send(3, 5, {bytes_tensor(mebibyte)});
  EXPECT_TRUE(has(pair.violation(), "channel 3, which does not exist"));
}

TEST_P(ConnectionLane, EndsIfTheTensorsOfAMessageDoNotArrive) {
  lane_with_peer pair{GetParam(), 50ms};
  pair.channel->expect(4);
  EXPECT_TRUE(has(pair.violation(), "no tensors arrived for the message with "
                                    "tag 4 on channel 2"));
}

/// The message may wait in the mailbox of a busy actor.
TEST_P(ConnectionLane, KeepsTensorsWhoseMessageIsReadMuchLater) {
  lane_with_peer pair{GetParam(), 10ms};
  pair.peer.sender().send(2, 5, {bytes_tensor(mebibyte)});
  const auto late = std::chrono::steady_clock::now() + 50ms;
  pair.run_until([&] {
    return !pair.arrivals.empty() && std::chrono::steady_clock::now() > late;
  });
  EXPECT_EQ(pair.arrivals.size(), 1u);
  pair.channel->expect(5); // the tensors are not missing
  const auto later = std::chrono::steady_clock::now() + 50ms;
  pair.run_until([&] { return std::chrono::steady_clock::now() > later; });
  EXPECT_FALSE(pair.closed);
}

TEST_P(ConnectionLane, EndsIfThePeerCancelsTensors) {
  auto lanes = net::testing::make_lanes(GetParam());
  auto header = offer_of_thousand_bytes();
  ASSERT_TRUE(lanes.left->post(write(header), std::span<const std::byte>{}));
  header.kind = packet_kind::cancel;
  ASSERT_TRUE(lanes.left->post(write(header), std::span<const std::byte>{}));
  lane_with_peer pair{std::move(lanes), net::testing::test_timeout};
  EXPECT_TRUE(has(pair.violation(), "were cancelled"));
}

TEST_P(ConnectionLane, EndsOnATensorOfAnotherSizeThanOffered) {
  auto lanes = net::testing::make_lanes(GetParam());
  auto header = offer_of_thousand_bytes();
  ASSERT_TRUE(lanes.left->post(write(header), std::span<const std::byte>{}));
  auto* other_end = lanes.left.get();
  lane_with_peer pair{std::move(lanes), net::testing::test_timeout};
  pair.lane->run_until_idle(); // it grants the bytes
  header.kind = packet_kind::spec;
  header.tensors = 0;
  const auto spec = encode_spec({shape{1001}, dtype::boolean});
  ASSERT_TRUE(other_end->post(write(header), std::span<const std::byte>{spec}));
  EXPECT_TRUE(has(pair.violation(), "larger than the offer"));
}

TEST_P(ConnectionLane, TellsItsChannelsOfTheEnd) {
  lane_with_peer pair{GetParam()};
  pair.channel->fail("a bad message");
  EXPECT_EQ(pair.violation(), "a bad message");
  pair.lane->end(pair.closed);
  ASSERT_EQ(pair.ends.size(), 1u);
  EXPECT_EQ(pair.ends[0].code, ec::protocol);
  std::optional<lane_ended> late;
  const auto opened = pair.lane->open(9);
  opened->set_listener(
    [&](tensor_channel::event&& x) { late = std::get<lane_ended>(x); });
  EXPECT_TRUE(late);
}

INSTANTIATE_TEST_SUITE_P(Each, ConnectionLane,
                         ::testing::Values("shm", "stream", "tls"),
                         [](const auto& x) { return x.param; });
