#include "troupe/actors/collectives/lane_transport.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>

using namespace troupe;
using namespace std::chrono_literals;
using collective::lane_id;

namespace {

/// Records the packets that are posted, and receives those in `arrived`.
class recording_lane final : public net::lane {
public:
  struct posted_packet {
    std::uint16_t number = 0; ///< Of the header.
    std::vector<std::byte> bytes;
    /// Address of a zero-copy payload. Null: the payload was copied.
    const std::byte* zero_copy = nullptr;
  };

  std::span<std::byte> reserve() override {
    return packets.size() < capacity ? std::span{buffer_}
                                     : std::span<std::byte>{};
  }
  void post(const net::packet_header& header, std::size_t bytes) override {
    add(header, std::span{buffer_}.first(bytes), nullptr);
  }
  bool post(const net::packet_header& header,
            std::span<const std::byte> bytes) override {
    return add(header, bytes, nullptr);
  }
  bool post_zero_copy(const net::packet_header& header,
                      std::span<const std::byte> bytes) override {
    return add(header, bytes, bytes.data());
  }
  bool flush() override { return true; }
  const net::packet_header* front() override {
    return arrived.empty() ? nullptr : &arrived.front();
  }
  std::size_t front_bytes() const override { return 0; }
  std::span<const std::byte> view() override { return {}; }
  bool fetch(std::span<std::byte>) override { return false; }
  void pop() override { arrived.pop_front(); }
  bool arm(std::vector<pollfd>&) override { return true; }
  void disarm() override {}
  const std::optional<closed_state>& closed() override { return closed_; }

  std::size_t capacity = 100;
  std::vector<posted_packet> packets;
  std::deque<net::packet_header> arrived;

private:
  bool add(const net::packet_header& header, std::span<const std::byte> bytes,
           const std::byte* zero_copy) {
    if (packets.size() >= capacity)
      return false;
    packets.push_back({collective::read(header).number,
                       {bytes.begin(), bytes.end()},
                       zero_copy});
    return true;
  }

  std::array<std::byte, net::max_packet_bytes> buffer_{};
  std::optional<closed_state> closed_;
};

/// Has the same fault for the packets of step 1, and none for others.
struct first_step_fault final : fault_injector {
  explicit first_step_fault(injected_fault fault) : fault{fault} {}
  injected_fault on_send(const role_id&, const role_id&, message_kind,
                         std::uint64_t, std::uint64_t step) override {
    return step == 1 ? fault : injected_fault{};
  }
  injected_fault fault;
};

/// Process 0 of a job of two processes with one replica each.
class LaneTransport : public ::testing::Test {
protected:
  void begin(const fault_injector::injected_fault& fault) {
    std::vector<peer_lanes> lanes(2);
    for (std::size_t i = 0; i < collective::lane_ids.size(); ++i)
      lanes[1].push_back(std::make_unique<recording_lane>());
    lane = static_cast<recording_lane*>(lanes[1].front().get());
    counts = std::make_shared<packet_counts>();
    transport.emplace(
      local_placement{placement{{{0}, {1}}}, 0}, std::move(lanes),
      std::make_shared<first_step_fault>(fault), [this] { return now; },
      counts_by_process{nullptr, counts}, 1s);
  }

  bool send_zero_copy(std::uint64_t step) {
    return transport->send_zero_copy(1, lane_id::contributions, header(step),
                                     payload);
  }

  static packet_header_bytes header(std::uint64_t step,
                                    std::uint16_t number = 0) {
    return write(
      collective::packet_header{.step = step, .elements = 8, .number = number});
  }

  /// Steps of the packets that the transport receives, in order.
  std::vector<std::uint64_t> received() {
    std::vector<std::uint64_t> out;
    while (const auto* x = transport->front(1, lane_id::contributions)) {
      const auto front = collective::read(*x);
      EXPECT_EQ(front.number, 0) << "the state machine has no use for it";
      out.push_back(front.step);
      transport->pop(1, lane_id::contributions);
    }
    return out;
  }
  std::string problem() {
    const auto& end = transport->closed(1, lane_id::contributions);
    if (end) {
      EXPECT_EQ(end->cause, net::close_reason::corrupted);
    }
    return end ? end->reason : "";
  }

  const std::vector<std::byte> payload{std::byte{1}, std::byte{2}};
  std::chrono::steady_clock::time_point now{};
  std::shared_ptr<packet_counts> counts;
  std::optional<lane_transport> transport;
  recording_lane* lane = nullptr;
};

} // namespace

TEST_F(LaneTransport, SendsZeroCopyThoughItInjectsFaults) {
  begin({.dropped = true});
  EXPECT_TRUE(send_zero_copy(1)); // dropped
  EXPECT_TRUE(send_zero_copy(2));
  ASSERT_EQ(lane->packets.size(), 1u);
  EXPECT_EQ(lane->packets[0].zero_copy, payload.data());
}

TEST_F(LaneTransport, SendsFaultyPacketsZeroCopy) {
  begin({.delay = 5ms, .corrupted = true});
  EXPECT_TRUE(send_zero_copy(1));
  EXPECT_TRUE(lane->packets.empty());

  // The owner of the bytes must keep them until the delayed packet is sent.
  EXPECT_FALSE(transport->flush());
  EXPECT_FALSE(send_zero_copy(2)) << "it would overtake the delayed packet";
  now += 5ms;
  EXPECT_TRUE(transport->flush());
  ASSERT_EQ(lane->packets.size(), 1u);
  EXPECT_EQ(lane->packets[0].zero_copy, payload.data());
  EXPECT_NE(lane->packets[0].number, 0u);
}

TEST_F(LaneTransport, SendsASecondCopyJustBeforeTheNextPacket) {
  begin({.duplicated = true, .delay = 5ms, .corrupted = true});
  EXPECT_TRUE(send_zero_copy(1));
  EXPECT_FALSE(send_zero_copy(2)) << "it would overtake the second copy";
  now += 5ms;
  EXPECT_TRUE(transport->flush());
  ASSERT_EQ(lane->packets.size(), 1u) << "the peer need not read another one";
  EXPECT_EQ(lane->packets[0].zero_copy, payload.data());
  EXPECT_NE(lane->packets[0].number, 0u);

  EXPECT_TRUE(send_zero_copy(2));
  ASSERT_EQ(lane->packets.size(), 3u);
  EXPECT_EQ(lane->packets[1].zero_copy, nullptr) << "the peer reads it late";
  EXPECT_EQ(lane->packets[1].bytes, payload);
  EXPECT_EQ(lane->packets[1].number, lane->packets[0].number);
  EXPECT_EQ(lane->packets[2].zero_copy, payload.data());
  EXPECT_EQ(lane->packets[2].number, 1u);
}

TEST_F(LaneTransport, KeepsASecondCopyForWhichTheLaneHasNoSpace) {
  begin({.duplicated = true});
  lane->capacity = 1;
  EXPECT_TRUE(send_zero_copy(1));
  EXPECT_FALSE(send_zero_copy(2));
  EXPECT_TRUE(transport->flush());
  lane->capacity = 3;
  EXPECT_TRUE(send_zero_copy(2));
  EXPECT_EQ(lane->packets.size(), 3u);
}

/// The buffer of the lane is used again before a delayed packet is sent.
TEST_F(LaneTransport, CopiesADelayedPacketFromTheBufferOfTheLane) {
  begin({.delay = 5ms});
  const auto buffer = transport->reserve(1, lane_id::contributions);
  buffer[0] = std::byte{7};
  transport->send(1, lane_id::contributions, header(1), 1);
  buffer[0] = std::byte{9};
  now += 5ms;
  EXPECT_TRUE(transport->flush());
  ASSERT_EQ(lane->packets.size(), 1u);
  EXPECT_EQ(lane->packets[0].bytes, std::vector{std::byte{7}});
}

TEST_F(LaneTransport, AsksTheFaultInjectorOnlyIfTheLaneHasSpace) {
  begin({.dropped = true});
  lane->capacity = 0;
  EXPECT_FALSE(send_zero_copy(1)) << "the sender has to try again";
}

TEST_F(LaneTransport, NumbersThePacketsOfALane) {
  begin({.dropped = true});
  lane->capacity = 2;
  for (const std::uint64_t step : {2, 1, 3})
    EXPECT_TRUE(send_zero_copy(step));
  EXPECT_FALSE(send_zero_copy(4));
  lane->capacity = 3;
  EXPECT_TRUE(send_zero_copy(4));
  ASSERT_EQ(lane->packets.size(), 3u);
  EXPECT_EQ(lane->packets[0].number, 0u);
  EXPECT_EQ(lane->packets[1].number, 2u) << "number 1 was dropped";
  EXPECT_EQ(lane->packets[2].number, 3u);
  EXPECT_TRUE(transport->flush());
  EXPECT_EQ(counts->sent(7), (packet_report{7, 4, 0}));
}

/// A packet that waits in this process is not on its way.
TEST_F(LaneTransport, DoesNotCountADelayedPacket) {
  begin({.delay = 5ms});
  EXPECT_TRUE(send_zero_copy(1));
  EXPECT_FALSE(transport->flush());
  EXPECT_EQ(counts->sent(1), (packet_report{1, 0, 0}));
  now += 5ms;
  EXPECT_TRUE(transport->flush());
  EXPECT_EQ(counts->sent(1), (packet_report{1, 1, 0}));
}

TEST_F(LaneTransport, NoticesThatAPacketIsMissing) {
  begin({});
  lane->arrived = {header(5, 0), header(6, 1), header(7, 3), header(8, 4)};
  EXPECT_EQ(received(), (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(problem(),
            "a packet was lost: number 2 was expected, and 3 arrived");
}

TEST_F(LaneTransport, ReceivesASecondCopyOfAPacket) {
  begin({});
  lane->arrived = {header(5, 0), header(5, 0), header(6, 1)};
  EXPECT_EQ(received(), (std::vector<std::uint64_t>{5, 5, 6}));
  EXPECT_EQ(problem(), "");
}

TEST_F(LaneTransport, CountsMorePacketsThanTheNumberHolds) {
  begin({});
  for (std::uint32_t i = 0; i < 65'536; ++i) {
    lane->arrived.push_back(header(1, static_cast<std::uint16_t>(i)));
    ASSERT_EQ(received().size(), 1u);
  }
  lane->arrived = {header(2, 0)};
  EXPECT_EQ(received().size(), 1u);
  EXPECT_EQ(problem(), "");
}

/// A peer that does not count its packets is noticed.
TEST_F(LaneTransport, AnotherPacketWithTheNumberOfTheLastOneIsNoSecondCopy) {
  begin({});
  lane->arrived = {header(5, 0), header(6, 0)};
  EXPECT_EQ(received(), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(problem(),
            "a packet was lost: number 1 was expected, and 0 arrived");
}

/// No later packet shows that the last one is lost.
TEST_F(LaneTransport, NoticesThatTheLastPacketsAreMissing) {
  begin({});
  lane->arrived = {header(5, 0)};
  EXPECT_EQ(received().size(), 1u);
  for (const std::uint64_t count : {0, 1}) {
    counts->set_reported({1, count, 9});
    now += 2s;
    EXPECT_EQ(received().size(), 0u);
    EXPECT_EQ(problem(), "") << "none is missing";
  }
  counts->set_reported({1, 3, 0});
  counts->set_reported({1, 3, 0});
  EXPECT_EQ(received().size(), 0u);
  now += 999ms;
  EXPECT_EQ(received().size(), 0u);
  EXPECT_EQ(problem(), "") << "they may be on their way";
  lane->arrived = {header(6, 1)};
  EXPECT_EQ(received().size(), 1u);
  now += 999ms;
  EXPECT_EQ(received().size(), 0u);
  EXPECT_EQ(problem(), "") << "one has arrived since then";
  now += 1ms;
  EXPECT_EQ(received().size(), 0u);
  EXPECT_EQ(problem(), "a packet was lost: 3 were sent, and 2 have arrived");
}
