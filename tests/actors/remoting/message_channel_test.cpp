#include "troupe/actors/remoting/message_channel.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using troupe::tensor_transfer::testing::bytes_tensor;

namespace {

/// Keeps what is sent, and the reason of a failure.
struct recording_lane final : tensor_channel {
  void set_listener(listener) override {}
  void send(std::uint64_t message, tensors values) override {
    sent.push_back({0, message, std::move(values)});
  }
  void expect(std::uint64_t message) override { expected.push_back(message); }
  void release(std::uint64_t transfer) override { released = transfer; }
  void fail(const std::string& reason) override { failure = reason; }
  void close() override { closed = true; }

  std::vector<arrived_tensors> sent;
  std::vector<std::uint64_t> expected;
  std::uint64_t released = 0;
  std::string failure;
  bool closed = false;
};

struct frame_log final : net::channel_listener {
  void on_frame(net::frame&& x) override { frames.push_back(std::move(x)); }
  void on_closed(net::close_reason, const std::string&) override {}
  std::vector<net::frame> frames;
};

/// The two ends of a channel with a lane. The test passes the tensors on.
struct MessageChannel : ::testing::Test {
  using side = net::loopback_channel::side;

  MessageChannel() { frames.end_of(side::right)->set_listener(received); }

  bool post(std::uint64_t tag, tensors values,
            net::priority priority = net::priority::bulk) {
    return left.post(
      {net::frame_kind::oneway, priority, 0, tag, std::vector<std::byte>(3)},
      std::move(values));
  }

  void deliver_frames() {
    frames.deliver();
    for (auto& x : std::exchange(received->frames, {}))
      right.add(std::move(x));
  }

  /// Returns the tags of the messages that are complete.
  std::vector<std::uint64_t> tags() {
    std::vector<std::uint64_t> found;
    while (const auto x = right.next()) {
      EXPECT_EQ(x->frame.payload.size(), 3u);
      found.push_back(x->frame.tag);
    }
    return found;
  }

  using list = std::vector<std::uint64_t>;
  net::loopback_channel frames;
  std::shared_ptr<frame_log> received = std::make_shared<frame_log>();
  std::shared_ptr<recording_lane> left_lane =
                                    std::make_shared<recording_lane>(),
                                  right_lane =
                                    std::make_shared<recording_lane>();
  message_channel left{frames.end_of(side::left), left_lane},
    right{frames.end_of(side::right), right_lane};
};

} // namespace

TEST_F(MessageChannel, KeepsTheOrderOfBulkMessagesAndLetsControlPass) {
  const auto value = bytes_tensor(10);
  EXPECT_TRUE(post(1, {}));
  EXPECT_TRUE(post(2, {value}));
  EXPECT_TRUE(post(3, {}));
  EXPECT_TRUE(post(4, {value, value}));
  EXPECT_TRUE(post(5, {}, net::priority::control));
  deliver_frames();
  EXPECT_EQ(tags(), (list{5, 1}));
  EXPECT_TRUE(right.is_waiting());
  EXPECT_EQ(right_lane->expected, (list{2, 4}));
  ASSERT_EQ(left_lane->sent.size(), 2u);
  right.add({8, 4, left_lane->sent[1].tensors}); // may overtake
  EXPECT_EQ(tags(), list{});
  right.add({7, 2, left_lane->sent[0].tensors});
  EXPECT_EQ(tags(), (list{2, 3, 4}));
  EXPECT_FALSE(right.is_waiting());
  EXPECT_EQ(right_lane->failure, "");
}

TEST_F(MessageChannel, SendsNoTensorsOfAMessageThatTheChannelRefuses) {
  std::uint64_t tag = 1;
  while (post(tag, {bytes_tensor(10)}))
    ASSERT_LT(++tag, 100u);
  EXPECT_EQ(left_lane->sent.size(), tag - 1);
}

TEST_F(MessageChannel, AMessageThatWaitsKeepsItsCredit) {
  for (std::uint64_t tag = 1; tag <= 16; ++tag)
    ASSERT_TRUE(post(tag, {bytes_tensor(10)}));
  deliver_frames();
  EXPECT_EQ(tags(), list{});
  EXPECT_FALSE(post(17, {}));
}

TEST_F(MessageChannel, WaitsForNoTensorsOfALaneThatHasEnded) {
  post(1, {bytes_tensor(10)});
  deliver_frames();
  EXPECT_TRUE(right.is_waiting());
  right.end_lane();
  EXPECT_FALSE(right.is_waiting());
  post(2, {bytes_tensor(10)});
  post(3, {});
  deliver_frames();
  EXPECT_EQ(tags(), list{3});
  EXPECT_FALSE(right.is_waiting());
}

TEST_F(MessageChannel, RejectsTensorsThatDoNotFitTheMessage) {
  post(1, {bytes_tensor(10), bytes_tensor(10)});
  deliver_frames();
  right.add({7, 1, {bytes_tensor(10)}});
  EXPECT_EQ(tags(), list{});
  EXPECT_EQ(right_lane->failure, "a message of 2 tensors got 1");
}

TEST_F(MessageChannel, DropsAFrameWithItsTensors) {
  for (const bool tensors_first : {false, true}) {
    SCOPED_TRACE(tensors_first);
    const std::uint64_t tag = tensors_first ? 2 : 1;
    arrived_tensors arrived{70 + tag, tag, {}};
    arrived.tensors.push_back(bytes_tensor(10));
    ASSERT_TRUE(post(tag, tensors(1, bytes_tensor(10))));
    frames.deliver();
    ASSERT_EQ(received->frames.size(), 1u);
    if (tensors_first)
      right.add(std::move(arrived));
    right.drop(std::move(received->frames[0]));
    received->frames.clear();
    if (!tensors_first)
      right.add(std::move(arrived));
    EXPECT_EQ(right_lane->released, 70 + tag);
    EXPECT_EQ(right_lane->expected.back(), tag) << "the lane counts them";
  }
  EXPECT_EQ(tags(), list{});
  EXPECT_EQ(right_lane->failure, "");
  ASSERT_TRUE(post(3, {}));
  deliver_frames();
  EXPECT_EQ(tags(), list{3}) << "the next message does not wait";
}

TEST_F(MessageChannel, RejectsTensorsThatArriveTwice) {
  right.add({7, 3, {bytes_tensor(10)}});
  right.add({8, 3, {bytes_tensor(10)}});
  EXPECT_NE(right_lane->failure.find("twice"), std::string::npos);
}

TEST_F(MessageChannel, RejectsABulkFrameWithoutNumberOfTensors) {
  right.add({net::frame_kind::oneway, net::priority::bulk, 0, 1,
             std::vector<std::byte>(3)});
  EXPECT_NE(right_lane->failure.find("number of tensors"), std::string::npos);
  EXPECT_EQ(tags(), list{});
}

TEST_F(MessageChannel, CountsTensorsToTheLimitOfAMessage) {
  const tensors half{tensor{shape{std::int64_t{1} << 29}, dtype::uint8}};
  const auto bulk = net::priority::bulk;
  EXPECT_FALSE(left.size_problem(1000, half, bulk));
  EXPECT_TRUE(left.size_problem(1000, {half[0], half[0]}, bulk));
}

TEST(MessageCodec, ReplacesLargeTensorsByMarks) {
  const auto small = bytes_tensor(wire::max_inline_tensor_bytes, 1),
             large = bytes_tensor(wire::max_inline_tensor_bytes + 1, 2);
  wire::message_writer out{true};
  wire::put(out, tensors{large, small, tensor{}, large});
  const auto lane_tensors = std::move(out).take_lane_tensors();
  EXPECT_EQ(lane_tensors.size(), 2u);
  const auto payload = std::move(out).bytes();
  EXPECT_LT(payload.size(), small.bytes() + 200);
  const auto read = [&](const tensors& arrived) {
    wire::message_reader in{payload, arrived};
    tensors found;
    wire::get(in, found);
    const auto fault = in.finish();
    EXPECT_TRUE(fault || same_bits(found.at(3), large));
    EXPECT_TRUE(fault || same_bits(found.at(1), small));
    return fault ? fault->reason : "";
  };
  EXPECT_EQ(read(lane_tensors), "");
  EXPECT_NE(read({large}), "") << "a mark without a tensor";
  EXPECT_NE(read({large, large, large}), "") << "a tensor without a mark";
}
