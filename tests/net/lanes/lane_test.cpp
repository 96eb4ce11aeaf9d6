#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Properties of every kind of lane.
class Lane : public ::testing::TestWithParam<const char*> {
protected:
  lane_pair lanes = make_lanes(GetParam());
  lane& left = *lanes.left;
  lane& right = *lanes.right;

  /// Posts until the lane is full, at most `most` packets.
  std::size_t fill(lane& x, std::size_t most, std::size_t size) {
    std::size_t posted = 0;
    while (posted < most && x.post(head_of(posted), bytes_of(posted, size)))
      ++posted;
    return posted;
  }

  void expect_parcels(lane& from, std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) {
      parcel_head head{};
      const auto bytes = take_sometime(from, head);
      ASSERT_TRUE(bytes) << i;
      EXPECT_EQ(head, head_of(i));
      EXPECT_EQ(*bytes, bytes_of(i, size));
    }
  }
};

const std::size_t sizes[]{
  0, 1, 63, 64, 4096, 16000, 16304, most_parcel_bytes - 1, most_parcel_bytes};

} // namespace

INSTANTIATE_TEST_SUITE_P(Each, Lane, ::testing::Values("shm", "stream", "tls"),
                         [](const auto& x) { return std::string{x.param}; });

TEST_P(Lane, StartsEmptyWithSpace) {
  EXPECT_EQ(left.front(), nullptr);
  const auto room = left.room();
  EXPECT_EQ(room.size(), most_parcel_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(room.data()) % 64, 0u);
  EXPECT_EQ(left.room().data(), room.data());
  EXPECT_FALSE(left.ended());
}

TEST_P(Lane, CarriesPacketsOfAllSizesBothWays) {
  std::uint64_t number = 0;
  for (const auto size : sizes)
    for (auto* from : {&left, &right}) {
      auto& to = from == &left ? right : left;
      std::thread sender{[&] {
        EXPECT_TRUE(
          post_sometime(*from, head_of(number), bytes_of(number, size)));
        EXPECT_TRUE(flush_sometime(*from));
      }};
      parcel_head head{};
      const auto bytes = take_sometime(to, head);
      sender.join();
      ASSERT_TRUE(bytes);
      EXPECT_EQ(head, head_of(number));
      EXPECT_EQ(*bytes, bytes_of(number, size));
      ++number;
    }
}

TEST_P(Lane, CarriesPayloadsWrittenInPlace) {
  for (const auto size : sizes) {
    const auto bytes = bytes_of(size, size);
    const auto room = left.room();
    ASSERT_FALSE(room.empty());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    std::thread sender{[&] {
      left.post(head_of(size), size);
      EXPECT_TRUE(flush_sometime(left));
    }};
    parcel_head head{};
    const auto came = take_sometime(right, head);
    sender.join();
    ASSERT_TRUE(came);
    EXPECT_EQ(head, head_of(size));
    EXPECT_EQ(*came, bytes);
  }
}

TEST_P(Lane, FillsUpWithoutAReaderAndKeepsTheOrder) {
  for (const std::size_t size : {std::size_t{8}, most_parcel_bytes}) {
    constexpr std::size_t many = 100'000;
    const auto posted = fill(left, many, size);
    ASSERT_LT(posted, many);
    EXPECT_TRUE(left.room().empty());
    EXPECT_FALSE(left.post(head_of(0), bytes_of(0, size)));
    EXPECT_FALSE(left.ended());
    std::thread taker{[&] { expect_parcels(right, posted, size); }};
    EXPECT_TRUE(flush_sometime(left));
    taker.join();
    EXPECT_FALSE(left.room().empty());
  }
}

TEST_P(Lane, RejectsAPacketThatIsTooLong) {
  const std::vector<std::byte> bytes(most_parcel_bytes + 1);
  EXPECT_THROW(left.post(head_of(0), bytes), std::logic_error);
  EXPECT_FALSE(left.room().empty());
  EXPECT_THROW(left.post(head_of(0), bytes.size()), std::logic_error);
}

TEST_P(Lane, RejectsAFetchIntoASmallBuffer) {
  ASSERT_TRUE(left.post(head_of(0), bytes_of(0, 100)));
  ASSERT_TRUE(wait_for_news(right));
  ASSERT_NE(right.front(), nullptr);
  std::vector<std::byte> little(99);
  EXPECT_THROW(right.fetch(little), std::logic_error);
}

TEST_P(Lane, WakesAThreadThatWaitsForAPacket) {
  std::thread waiter{[&] { expect_parcels(right, 200, 4096); }};
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_TRUE(post_sometime(left, head_of(i), bytes_of(i, 4096)));
  EXPECT_TRUE(flush_sometime(left));
  waiter.join();
}

TEST_P(Lane, WakesAThreadThatWaitsForSpace) {
  const auto posted = fill(left, 100'000, most_parcel_bytes);
  std::thread waiter{[&] {
    EXPECT_TRUE(post_sometime(left, head_of(posted),
                              bytes_of(posted, most_parcel_bytes)));
    EXPECT_TRUE(flush_sometime(left));
  }};
  expect_parcels(right, posted + 1, most_parcel_bytes);
  waiter.join();
}

TEST_P(Lane, WakesBothSidesForEachPacketOfAnEcho) {
  constexpr std::uint64_t rounds = 500;
  std::thread echo{[&] {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      parcel_head head{};
      const auto bytes = take_sometime(right, head);
      ASSERT_TRUE(bytes);
      EXPECT_TRUE(post_sometime(right, head, *bytes));
    }
  }};
  for (std::uint64_t i = 0; i < rounds; ++i) {
    EXPECT_TRUE(post_sometime(left, head_of(i), bytes_of(i, 100)));
    parcel_head head{};
    const auto bytes = take_sometime(left, head);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(head, head_of(i));
  }
  echo.join();
}

TEST_P(Lane, ReportsNoEventForAPacketThatIsLeftInTheLane) {
  ASSERT_TRUE(left.post(head_of(0), bytes_of(0, 100)));
  ASSERT_TRUE(left.post(head_of(1), bytes_of(1, 100)));
  ASSERT_TRUE(wait_for_news(right));
  ASSERT_NE(right.front(), nullptr);
  std::vector<pollfd> watched;
  EXPECT_TRUE(right.before_sleep(watched));
  EXPECT_EQ(::poll(watched.data(), watched.size(), 0), 0);
  right.after_sleep();
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(right.fetch(bytes));
  right.pop();
  EXPECT_TRUE(wait_for_news(right)); // the next packet
  EXPECT_NE(right.front(), nullptr);
}

TEST_P(Lane, DeliversEarlierPacketsBeforeItReportsTheClose) {
  ASSERT_EQ(fill(left, 3, 5000), 3u);
  lanes.left.reset();
  expect_parcels(right, 3, 5000);
  EXPECT_EQ(right.front(), nullptr);
  EXPECT_TRUE(wait_for_news(right));
  EXPECT_EQ(right.front(), nullptr);
  ASSERT_TRUE(right.ended());
  EXPECT_EQ(right.ended()->how, ending::dead);
  EXPECT_TRUE(right.room().empty());
  EXPECT_FALSE(right.post(head_of(0), bytes_of(0, 1)));
  std::vector<pollfd> watched;
  EXPECT_TRUE(right.before_sleep(watched)); // no further events
  EXPECT_TRUE(watched.empty());
}

TEST_P(Lane, ReportsTheCloseBehindAPacketThatIsNotPopped) {
  ASSERT_TRUE(left.post(head_of(0), bytes_of(0, 100)));
  ASSERT_TRUE(wait_for_news(right));
  ASSERT_NE(right.front(), nullptr);
  lanes.left.reset();
  EXPECT_TRUE(wait_for_news(right));
  ASSERT_TRUE(right.ended());
  EXPECT_EQ(right.ended()->how, ending::dead);
  std::vector<std::byte> bytes(100);
  EXPECT_TRUE(right.fetch(bytes));
  EXPECT_EQ(bytes, bytes_of(0, 100));
}

TEST_P(Lane, WaitsNoLongerThanTheTimeout) {
  std::vector<pollfd> watched;
  lane* const both[]{&left, &right};
  EXPECT_FALSE(sleep_on(both, std::chrono::milliseconds{1}, watched));
  EXPECT_FALSE(sleep_on(both, std::chrono::nanoseconds{-1}, watched));
}
