#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Tests of properties that every kind of lane has.
class Lane : public ::testing::TestWithParam<const char*> {
protected:
  connected_lanes lanes = make_lanes(GetParam());
  lane& left = *lanes.left;
  lane& right = *lanes.right;

  /// Posts packets until the lane is full, at most `max_packets`, and returns
  /// the number posted.
  std::size_t fill(lane& x, std::size_t max_packets, std::size_t size) {
    std::size_t posted = 0;
    while (posted < max_packets
           && x.post(numbered_header(posted), bytes_of(posted, size)))
      ++posted;
    return posted;
  }

  void expect_packets(lane& from, std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) {
      packet_header header{};
      const auto bytes = take_eventually(from, header);
      ASSERT_TRUE(bytes) << i;
      EXPECT_EQ(header, numbered_header(i));
      EXPECT_EQ(*bytes, bytes_of(i, size));
    }
  }
};

const std::size_t sizes[]{
  0, 1, 63, 64, 4096, 16000, 16304, max_packet_bytes - 1, max_packet_bytes};

} // namespace

INSTANTIATE_TEST_SUITE_P(Each, Lane, ::testing::Values("shm", "stream", "tls"),
                         [](const auto& x) { return std::string{x.param}; });

TEST_P(Lane, StartsEmptyWithSpace) {
  EXPECT_EQ(left.front(), nullptr);
  const auto buffer = left.reserve();
  EXPECT_EQ(buffer.size(), max_packet_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  EXPECT_EQ(left.reserve().data(), buffer.data());
  EXPECT_FALSE(left.closed());
}

TEST_P(Lane, CarriesPacketsOfAllSizesBothWays) {
  std::uint64_t number = 0;
  for (const auto size : sizes)
    for (auto* outgoing : {&left, &right}) {
      auto& incoming = outgoing == &left ? right : left;
      std::thread sender{[&] {
        EXPECT_TRUE(post_eventually(*outgoing, numbered_header(number),
                                    bytes_of(number, size)));
        EXPECT_TRUE(flush_eventually(*outgoing));
      }};
      packet_header header{};
      const auto bytes = take_eventually(incoming, header);
      sender.join();
      ASSERT_TRUE(bytes);
      EXPECT_EQ(header, numbered_header(number));
      EXPECT_EQ(*bytes, bytes_of(number, size));
      ++number;
    }
}

TEST_P(Lane, CarriesPayloadsWrittenInPlace) {
  for (const auto size : sizes) {
    const auto bytes = bytes_of(size, size);
    const auto buffer = left.reserve();
    ASSERT_FALSE(buffer.empty());
    std::copy(bytes.begin(), bytes.end(), buffer.begin());
    std::thread sender{[&] {
      left.post(numbered_header(size), size);
      EXPECT_TRUE(flush_eventually(left));
    }};
    packet_header header{};
    const auto received = take_eventually(right, header);
    sender.join();
    ASSERT_TRUE(received);
    EXPECT_EQ(header, numbered_header(size));
    EXPECT_EQ(*received, bytes);
  }
}

TEST_P(Lane, FillsUpWithoutAReaderAndKeepsTheOrder) {
  for (const std::size_t size : {std::size_t{8}, max_packet_bytes}) {
    constexpr std::size_t many = 100'000;
    const auto posted = fill(left, many, size);
    ASSERT_LT(posted, many);
    EXPECT_TRUE(left.reserve().empty());
    EXPECT_FALSE(left.post(numbered_header(0), bytes_of(0, size)));
    EXPECT_FALSE(left.closed());
    std::thread taker{[&] { expect_packets(right, posted, size); }};
    EXPECT_TRUE(flush_eventually(left));
    taker.join();
    EXPECT_FALSE(left.reserve().empty());
  }
}

TEST_P(Lane, RejectsAPacketThatIsTooLong) {
  const std::vector<std::byte> bytes(max_packet_bytes + 1);
  EXPECT_THROW(left.post(numbered_header(0), bytes), std::logic_error);
  EXPECT_FALSE(left.reserve().empty());
  EXPECT_THROW(left.post(numbered_header(0), bytes.size()), std::logic_error);
}

TEST_P(Lane, RejectsAFetchIntoASmallBuffer) {
  ASSERT_TRUE(left.post(numbered_header(0), bytes_of(0, 100)));
  ASSERT_TRUE(wait_for_event(right));
  ASSERT_NE(right.front(), nullptr);
  std::vector<std::byte> little(99);
  EXPECT_THROW(right.fetch(little), std::logic_error);
}

TEST_P(Lane, WakesAThreadThatWaitsForAPacket) {
  std::thread waiter{[&] { expect_packets(right, 200, 4096); }};
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_TRUE(post_eventually(left, numbered_header(i), bytes_of(i, 4096)));
  EXPECT_TRUE(flush_eventually(left));
  waiter.join();
}

TEST_P(Lane, WakesAThreadThatWaitsForSpace) {
  const auto posted = fill(left, 100'000, max_packet_bytes);
  std::thread waiter{[&] {
    EXPECT_TRUE(post_eventually(left, numbered_header(posted),
                                bytes_of(posted, max_packet_bytes)));
    EXPECT_TRUE(flush_eventually(left));
  }};
  expect_packets(right, posted + 1, max_packet_bytes);
  waiter.join();
}

TEST_P(Lane, WakesBothSidesForEachPacketOfAnEcho) {
  constexpr std::uint64_t rounds = 500;
  std::thread echo{[&] {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      packet_header header{};
      const auto bytes = take_eventually(right, header);
      ASSERT_TRUE(bytes);
      EXPECT_TRUE(post_eventually(right, header, *bytes));
    }
  }};
  for (std::uint64_t i = 0; i < rounds; ++i) {
    EXPECT_TRUE(post_eventually(left, numbered_header(i), bytes_of(i, 100)));
    packet_header header{};
    const auto bytes = take_eventually(left, header);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(header, numbered_header(i));
  }
  echo.join();
}

TEST_P(Lane, ReportsNoEventForAPacketThatIsLeftInTheLane) {
  ASSERT_TRUE(left.post(numbered_header(0), bytes_of(0, 100)));
  ASSERT_TRUE(left.post(numbered_header(1), bytes_of(1, 100)));
  ASSERT_TRUE(wait_for_event(right));
  ASSERT_NE(right.front(), nullptr);
  std::vector<pollfd> watched;
  EXPECT_TRUE(right.arm(watched));
  EXPECT_EQ(::poll(watched.data(), watched.size(), 0), 0);
  right.disarm();
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(right.fetch(bytes));
  right.pop();
  EXPECT_TRUE(wait_for_event(right)); // the next packet is an event
  EXPECT_NE(right.front(), nullptr);
}

TEST_P(Lane, DeliversEarlierPacketsBeforeItReportsTheClose) {
  ASSERT_EQ(fill(left, 3, 5000), 3u);
  lanes.left.reset();
  expect_packets(right, 3, 5000);
  EXPECT_EQ(right.front(), nullptr);
  EXPECT_TRUE(wait_for_event(right));
  EXPECT_EQ(right.front(), nullptr);
  ASSERT_TRUE(right.closed());
  EXPECT_EQ(right.closed()->cause, close_reason::closed);
  EXPECT_TRUE(right.reserve().empty());
  EXPECT_FALSE(right.post(numbered_header(0), bytes_of(0, 1)));
  std::vector<pollfd> watched;
  EXPECT_TRUE(right.arm(watched)); // the close is reported, so no event follows
  EXPECT_TRUE(watched.empty());
}

TEST_P(Lane, ReportsTheCloseBehindAPacketThatIsNotPopped) {
  ASSERT_TRUE(left.post(numbered_header(0), bytes_of(0, 100)));
  ASSERT_TRUE(wait_for_event(right));
  ASSERT_NE(right.front(), nullptr);
  lanes.left.reset();
  EXPECT_TRUE(wait_for_event(right));
  ASSERT_TRUE(right.closed());
  EXPECT_EQ(right.closed()->cause, close_reason::closed);
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(right.fetch(bytes));
  EXPECT_EQ(bytes, bytes_of(0, 100));
}

TEST_P(Lane, WaitsNoLongerThanTheTimeout) {
  std::vector<pollfd> watched;
  lane* const both[]{&left, &right};
  EXPECT_FALSE(wait_any(both, std::chrono::milliseconds{1}, watched));
  EXPECT_FALSE(wait_any(both, std::chrono::nanoseconds{-1}, watched));
}
