#include "troupe/tests/net/session/multiplexers.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

TEST(Multiplexer, CarriesManyChannelsEachInOrder) {
  for (const std::size_t piece : {1, 7, 1000, 1 << 20}) {
    multiplexer_pair pair;
    decltype(payloads({})) sent;
    for (std::uint32_t c = 1; c <= 3; ++c)
      pair.left.open(c), pair.right.open(c);
    for (std::uint32_t i = 0; i < 30; ++i) {
      const auto f = sample_frame(i * 3, i);
      sent.emplace_back(1 + i % 3, f.payload);
      EXPECT_TRUE(pair.left.post(1 + i % 3, frame{f}));
    }
    EXPECT_FALSE(pair.transfer_right(piece));
    EXPECT_EQ(payloads(pair.right_events), sent);
  }
}

TEST(Multiplexer, LetsControlOvertakeBulk) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  for (const auto frame_priority :
       {priority::bulk, priority::bulk, priority::control})
    EXPECT_TRUE(pair.left.post(1, sample_frame(100, 1, frame_priority)));
  pair.transfer_right();
  ASSERT_EQ(pair.right_events.size(), 3u);
  EXPECT_EQ(pair.right_events[0].received->priority, priority::control);
}

TEST(Multiplexer, AcceptsNoFrameBeyondTheCreditsUntilFramesAreConsumed) {
  for (const auto frame_priority : {priority::control, priority::bulk}) {
    multiplexer_pair pair;
    pair.left.open(1), pair.right.open(1);
    for (std::size_t i = 0; i < credits_of(frame_priority); ++i)
      EXPECT_TRUE(pair.left.post(1, sample_frame(1, 1, frame_priority)));
    EXPECT_FALSE(pair.left.post(1, sample_frame(1, 1, frame_priority)));
    pair.transfer_right();
    // The right side has received the frames but not consumed them, so it has
    // returned no credits.
    EXPECT_FALSE(pair.left.post(1, sample_frame(1, 1, frame_priority)));
    for (std::size_t i = 0; i < credits_of(frame_priority); ++i)
      pair.right.consumed(1, frame_priority);
    pair.transfer_left();
    for (std::size_t i = 0; i < credits_of(frame_priority); ++i)
      EXPECT_TRUE(pair.left.post(1, sample_frame(1, 1, frame_priority)));
    EXPECT_FALSE(pair.left.post(1, sample_frame(1, 1, frame_priority)));
    EXPECT_FALSE(pair.transfer_right());
  }
}

TEST(Multiplexer, ReturnsCreditsInBatches) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  for (int i = 0; i < 200; ++i)
    pair.left.post(1, sample_frame(1));
  pair.transfer_right();
  std::size_t credits = 0;
  for (int i = 0; i < 200; ++i) {
    pair.right.consumed(1, priority::control);
    credits += !pair.right.output().empty();
    pair.transfer_left();
  }
  EXPECT_EQ(credits, 3u);
}

TEST(Multiplexer, BuffersFramesOfAChannelUntilItIsOpened) {
  multiplexer_pair pair;
  pair.left.open(7);
  pair.left.post(7, sample_frame(3, 1));
  pair.left.post(7, sample_frame(4, 2));
  pair.transfer_right();
  EXPECT_TRUE(pair.right_events.empty());
  const auto kept = pair.right.open(7);
  EXPECT_EQ(payloads(kept).size(), 2u);
  EXPECT_EQ(payloads(kept)[1].second, sample_frame(4, 2).payload);
  pair.left.post(7, sample_frame(5, 3));
  pair.transfer_right();
  EXPECT_EQ(pair.right_events.size(), 1u);
}

TEST(Multiplexer, BuffersAFrameForEachReplicaOfALargeJob) {
  constexpr std::uint32_t replicas = 4096;
  multiplexer_pair pair;
  // The right side buffers the frames of channels that it has not opened. The
  // frames of ten rounds together exceed `max_buffered_bytes`, but in each
  // round the right side opens all channels, which empties the buffer.
  for (int round = 0; round < 10; ++round) {
    for (std::uint32_t c = 1; c <= replicas; ++c) {
      pair.left.open(c);
      EXPECT_TRUE(pair.left.post(c, sample_frame(64, c)));
    }
    ASSERT_FALSE(pair.transfer_right());
    for (std::uint32_t c = 1; c <= replicas; ++c) {
      const auto kept = payloads(pair.right.open(c));
      ASSERT_EQ(kept.size(), 1u);
      EXPECT_EQ(kept[0].second, sample_frame(64, c).payload);
      pair.left.close(c, "done");
    }
    ASSERT_FALSE(pair.transfer_right());
    ASSERT_FALSE(pair.transfer_left());
  }
}

TEST(Multiplexer, ClosesAChannelOnBothSidesAfterAllPostedFrames) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  pair.left.post(1, sample_frame(1, 1, priority::bulk));
  pair.left.post(1, sample_frame(1));
  pair.left.close(1, "done");
  EXPECT_FALSE(pair.left.post(1, sample_frame(1)));
  // `left` has not received this frame when it sends its close
  pair.right.post(1, sample_frame(1));
  pair.transfer_right();
  ASSERT_EQ(pair.right_events.size(), 3u);
  EXPECT_EQ(pair.right_events[2].reason, "done");
  EXPECT_FALSE(pair.right.post(1, sample_frame(1)));
  pair.transfer_left();
  ASSERT_EQ(pair.left_events.size(), 2u);
  EXPECT_TRUE(pair.left_events[0].received);
  EXPECT_EQ(pair.left_events[1].reason, "done");
  pair.left.open(1), pair.right.open(1); // the number can be used again
  EXPECT_TRUE(pair.left.post(1, sample_frame(1)));
  EXPECT_FALSE(pair.transfer_right());
}

TEST(Multiplexer, ClosesAChannelOnceWhenBothSidesCloseIt) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  pair.left.close(1, "left");
  pair.right.close(1, "right");
  EXPECT_FALSE(pair.transfer_right());
  EXPECT_FALSE(pair.transfer_left());
  ASSERT_EQ(pair.left_events.size(), 1u);
  ASSERT_EQ(pair.right_events.size(), 1u);
  EXPECT_EQ(pair.left_events[0].reason, "left");
  EXPECT_EQ(pair.right_events[0].reason, "right");
  EXPECT_TRUE(pair.left.output().empty() && pair.right.output().empty());
}

TEST(Multiplexer, ReportsACloseThatArrivedBeforeTheChannelWasOpened) {
  multiplexer_pair pair;
  pair.left.open(1);
  pair.left.post(1, sample_frame(1));
  pair.left.close(1, "done");
  pair.transfer_right(), pair.transfer_left();
  EXPECT_EQ(pair.left_events.size(), 1u);
  const auto kept = pair.right.open(1);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].reason, "done");
  EXPECT_FALSE(pair.right.post(1, sample_frame(1)));
}

TEST(Multiplexer, SendsGoawayAfterAllPostedFrames) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  pair.left.post(1, sample_frame(1, 1, priority::bulk));
  pair.left.send_goaway("enough");
  EXPECT_FALSE(pair.left.post(1, sample_frame(1)));
  const auto end_state = pair.transfer_right();
  ASSERT_TRUE(end_state);
  EXPECT_EQ(end_state->cause, close_reason::closed);
  EXPECT_EQ(end_state->reason, "enough");
  EXPECT_EQ(pair.right_events.size(), 1u);
}
