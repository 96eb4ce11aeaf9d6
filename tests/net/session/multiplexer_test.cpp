#include "troupe/tests/net/session/multiplexers.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

TEST(Multiplexer, CarriesManyChannelsEachInOrder) {
  for (const std::size_t piece : {1, 7, 1000, 1 << 20}) {
    both x;
    decltype(payloads({})) sent;
    for (std::uint32_t c = 1; c <= 3; ++c)
      x.left.open(c), x.right.open(c);
    for (std::uint32_t i = 0; i < 30; ++i) {
      const auto f = letter(i * 3, i);
      sent.emplace_back(1 + i % 3, f.payload);
      EXPECT_TRUE(x.left.post(1 + i % 3, frame{f}));
    }
    EXPECT_FALSE(x.there(piece));
    EXPECT_EQ(payloads(x.at_right), sent);
  }
}

TEST(Multiplexer, LetsControlOvertakeBulk) {
  both x;
  x.left.open(1), x.right.open(1);
  for (const auto how : {priority::bulk, priority::bulk, priority::control})
    EXPECT_TRUE(x.left.post(1, letter(100, 1, how)));
  x.there();
  ASSERT_EQ(x.at_right.size(), 3u);
  EXPECT_EQ(x.at_right[0].heard->priority, priority::control);
}

TEST(Multiplexer, AcceptsNoFrameBeyondTheCreditsUntilFramesAreConsumed) {
  for (const auto how : {priority::control, priority::bulk}) {
    both x;
    x.left.open(1), x.right.open(1);
    for (std::size_t i = 0; i < credits_of(how); ++i)
      EXPECT_TRUE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how)));
    x.there();
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how))); // received, not consumed
    for (std::size_t i = 0; i < credits_of(how); ++i)
      x.right.consumed(1, how);
    x.back();
    for (std::size_t i = 0; i < credits_of(how); ++i)
      EXPECT_TRUE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.there());
  }
}

TEST(Multiplexer, ReturnsCreditsInBatches) {
  both x;
  x.left.open(1), x.right.open(1);
  for (int i = 0; i < 200; ++i)
    x.left.post(1, letter(1));
  x.there();
  std::size_t credits = 0;
  for (int i = 0; i < 200; ++i) {
    x.right.consumed(1, priority::control);
    credits += !x.right.out().empty();
    x.back();
  }
  EXPECT_EQ(credits, 3u);
}

TEST(Multiplexer, BuffersFramesOfAChannelUntilItIsOpened) {
  both x;
  x.left.open(7);
  x.left.post(7, letter(3, 1));
  x.left.post(7, letter(4, 2));
  x.there();
  EXPECT_TRUE(x.at_right.empty());
  const auto kept = x.right.open(7);
  EXPECT_EQ(payloads(kept).size(), 2u);
  EXPECT_EQ(payloads(kept)[1].second, letter(4, 2).payload);
  x.left.post(7, letter(5, 3));
  x.there();
  EXPECT_EQ(x.at_right.size(), 1u);
}

TEST(Multiplexer, BuffersAFrameForEachReplicaOfALargeJob) {
  constexpr std::uint32_t replicas = 4096;
  both x;
  for (int round = 0; round < 10; ++round) { // open channels do not count
    for (std::uint32_t c = 1; c <= replicas; ++c) {
      x.left.open(c);
      EXPECT_TRUE(x.left.post(c, letter(64, c)));
    }
    ASSERT_FALSE(x.there());
    for (std::uint32_t c = 1; c <= replicas; ++c) {
      const auto kept = payloads(x.right.open(c));
      ASSERT_EQ(kept.size(), 1u);
      EXPECT_EQ(kept[0].second, letter(64, c).payload);
      x.left.close(c, "done");
    }
    ASSERT_FALSE(x.there());
    ASSERT_FALSE(x.back());
  }
}

TEST(Multiplexer, ClosesAChannelOnBothSidesAfterAllPostedFrames) {
  both x;
  x.left.open(1), x.right.open(1);
  x.left.post(1, letter(1, 1, priority::bulk));
  x.left.post(1, letter(1));
  x.left.close(1, "done");
  EXPECT_FALSE(x.left.post(1, letter(1)));
  x.right.post(1, letter(1)); // in transit at the same time
  x.there();
  ASSERT_EQ(x.at_right.size(), 3u);
  EXPECT_EQ(x.at_right[2].ended, "done");
  EXPECT_FALSE(x.right.post(1, letter(1)));
  x.back();
  ASSERT_EQ(x.at_left.size(), 2u);
  EXPECT_TRUE(x.at_left[0].heard);
  EXPECT_EQ(x.at_left[1].ended, "done");
  x.left.open(1), x.right.open(1); // the number is free again
  EXPECT_TRUE(x.left.post(1, letter(1)));
  EXPECT_FALSE(x.there());
}

TEST(Multiplexer, ClosesAChannelOnceWhenBothSidesCloseIt) {
  both x;
  x.left.open(1), x.right.open(1);
  x.left.close(1, "left");
  x.right.close(1, "right");
  EXPECT_FALSE(x.there());
  EXPECT_FALSE(x.back());
  ASSERT_EQ(x.at_left.size(), 1u);
  ASSERT_EQ(x.at_right.size(), 1u);
  EXPECT_EQ(x.at_left[0].ended, "left");
  EXPECT_EQ(x.at_right[0].ended, "right");
  EXPECT_TRUE(x.left.out().empty() && x.right.out().empty());
}

TEST(Multiplexer, ReportsACloseThatArrivedBeforeTheChannelWasOpened) {
  both x;
  x.left.open(1);
  x.left.post(1, letter(1));
  x.left.close(1, "done");
  x.there(), x.back();
  EXPECT_EQ(x.at_left.size(), 1u);
  const auto kept = x.right.open(1);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].ended, "done");
  EXPECT_FALSE(x.right.post(1, letter(1)));
}

TEST(Multiplexer, SendsGoawayAfterAllPostedFrames) {
  both x;
  x.left.open(1), x.right.open(1);
  x.left.post(1, letter(1, 1, priority::bulk));
  x.left.say_goodbye("enough");
  EXPECT_FALSE(x.left.post(1, letter(1)));
  const auto over = x.there();
  ASSERT_TRUE(over);
  EXPECT_EQ(over->how, ending::dead);
  EXPECT_EQ(over->why, "enough");
  EXPECT_EQ(x.at_right.size(), 1u);
}
