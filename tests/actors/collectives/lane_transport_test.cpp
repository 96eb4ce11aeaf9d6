#include "troupe/actors/collectives/lane_transport.hpp"

#include <gtest/gtest.h>

#include <array>

using namespace troupe;
using namespace std::chrono_literals;
using collective::lane_id;

namespace {

/// Records the packets that are posted.
class recording_lane final : public net::lane {
public:
  struct posted_packet {
    std::uint64_t elements = 0; ///< Of the header.
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
  const net::packet_header* front() override { return nullptr; }
  std::size_t front_bytes() const override { return 0; }
  std::span<const std::byte> view() override { return {}; }
  bool fetch(std::span<std::byte>) override { return false; }
  void pop() override {}
  bool arm(std::vector<pollfd>&) override { return true; }
  void disarm() override {}
  const std::optional<closed_state>& closed() override { return closed_; }

  std::size_t capacity = 100;
  std::vector<posted_packet> packets;

private:
  bool add(const net::packet_header& header, std::span<const std::byte> bytes,
           const std::byte* zero_copy) {
    if (packets.size() >= capacity)
      return false;
    packets.push_back({collective::read(header).elements,
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
class LaneTransport : public testing::Test {
protected:
  void begin(const fault_injector::injected_fault& fault) {
    std::vector<peer_lanes> lanes(2);
    for (std::size_t i = 0; i < collective::lane_ids.size(); ++i)
      lanes[1].push_back(std::make_unique<recording_lane>());
    lane = static_cast<recording_lane*>(lanes[1].front().get());
    transport.emplace(
      local_placement{placement{{{0}, {1}}}, 0}, std::move(lanes),
      std::make_shared<first_step_fault>(fault), [this] { return now; });
  }

  bool send_zero_copy(std::uint64_t step) {
    return transport->send_zero_copy(1, lane_id::contributions, header(step),
                                     payload);
  }

  static collective::packet_header_bytes header(std::uint64_t step) {
    return write(collective::packet_header{.step = step, .elements = 8});
  }

  const std::vector<std::byte> payload{std::byte{1}, std::byte{2}};
  std::chrono::steady_clock::time_point now{};
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
  EXPECT_NE(lane->packets[0].elements, 8u);
}

TEST_F(LaneTransport, SendsASecondCopyJustBeforeTheNextPacket) {
  begin({.duplicated = true, .delay = 5ms, .corrupted = true});
  EXPECT_TRUE(send_zero_copy(1));
  EXPECT_FALSE(send_zero_copy(2)) << "it would overtake the second copy";
  now += 5ms;
  EXPECT_TRUE(transport->flush());
  ASSERT_EQ(lane->packets.size(), 1u) << "the peer need not read another one";
  EXPECT_EQ(lane->packets[0].zero_copy, payload.data());
  EXPECT_NE(lane->packets[0].elements, 8u);

  EXPECT_TRUE(send_zero_copy(2));
  ASSERT_EQ(lane->packets.size(), 3u);
  EXPECT_EQ(lane->packets[1].zero_copy, nullptr) << "the peer reads it late";
  EXPECT_EQ(lane->packets[1].bytes, payload);
  EXPECT_EQ(lane->packets[1].elements, lane->packets[0].elements);
  EXPECT_EQ(lane->packets[2].zero_copy, payload.data());
  EXPECT_EQ(lane->packets[2].elements, 8u);
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
