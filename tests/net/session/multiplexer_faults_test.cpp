#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/net/session/multiplexers.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <gtest/gtest.h>

using troupe::test::mentions;
using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

void send_control(multiplexer_pair& pair, std::uint64_t what,
                  std::vector<std::byte> payload) {
  pair.left.output().push({.tag = what, .payload = std::move(payload)});
}

/// Sends a control frame with the tag `what` to the right side. Returns the
/// reason if the right side then ends the connection with a protocol error,
/// else "none".
std::string fault_after(std::uint64_t what,
                        std::vector<std::byte> payload = {}) {
  multiplexer_pair pair;
  pair.right.open(5);
  send_control(pair, what, std::move(payload));
  const auto end_state = pair.transfer_right();
  return end_state && end_state->cause == close_reason::protocol_error
           ? end_state->reason
           : "none";
}

template <class... Ts>
std::vector<std::byte> encoded_control(control_frame what, const Ts&... xs) {
  return to_bytes({.tag = std::uint64_t(what), .payload = encode(xs...)});
}

} // namespace

TEST(MultiplexerFaults, IgnoresConsumedCallsBeyondTheReceivedFrames) {
  multiplexer_pair pair;
  pair.left.open(1), pair.right.open(1);
  for (int i = 0; i < 1000; ++i)
    pair.right.consumed(1, priority::control);
  EXPECT_TRUE(pair.right.output().empty());
  pair.left.post(1, sample_frame(1));
  EXPECT_FALSE(pair.transfer_right());
}

TEST(MultiplexerFaults, EndsWhenAPeerExceedsItsCredits) {
  multiplexer_pair pair;
  pair.right.open(1);
  for (std::size_t i = 0; i <= credits_of(priority::control); ++i) {
    auto f = sample_frame(1);
    f.channel = 1;
    pair.left.output().push(f);
  }
  const auto end_state = pair.transfer_right();
  ASSERT_TRUE(end_state);
  EXPECT_EQ(end_state->cause, close_reason::protocol_error);
  EXPECT_TRUE(mentions(end_state->reason, "more frames on channel 1"));
}

TEST(MultiplexerFaults, BoundsTheBufferForChannelsThatAreNotOpen) {
  // The left side sends to channels that the right side has not opened. If
  // `ends` is false, the left side sends one empty frame on each channel. If
  // `ends` is true, the left side sends a close with the longest reason on each
  // channel.
  for (const bool ends : {false, true}) {
    multiplexer_pair pair_many;
    const auto each = multiplexer::bytes_per_channel
                      + multiplexer::bytes_per_event + (ends ? 1000 : 0);
    const auto max_channels = multiplexer::max_buffered_bytes / each;
    std::optional<multiplexer::closed_state> end_state;
    std::uint32_t c = 0;
    while (!end_state && c <= max_channels) {
      pair_many.left.open(++c);
      if (ends)
        pair_many.left.close(c, std::string(2000, 'x'));
      else
        pair_many.left.post(c, sample_frame(0));
      end_state = pair_many.transfer_right();
      pair_many.right.output().written(pair_many.right.output().front().size());
    }
    EXPECT_EQ(c, max_channels + 1);
    ASSERT_TRUE(end_state);
    EXPECT_EQ(end_state->cause, close_reason::protocol_error);
    EXPECT_TRUE(mentions(end_state->reason, "channels that are not open"));
  }

  multiplexer_pair pair_large;
  std::optional<multiplexer::closed_state> end;
  pair_large.left.open(1);
  for (int i = 0; i < 17 && !end; ++i) {
    EXPECT_TRUE(pair_large.left.post(1, sample_frame(1 << 20)));
    end = pair_large.transfer_right();
  }
  ASSERT_TRUE(end);
  EXPECT_TRUE(mentions(end->reason, "bytes for channels that are not open"));
}

TEST(MultiplexerFaults, AcceptsAtMost4MiBThatThePeerDoesNotRead) {
  multiplexer_pair pair;
  pair.left.open(1);
  std::size_t accepted_frames = 0;
  while (pair.left.post(1, sample_frame(1 << 20)))
    ++accepted_frames;
  EXPECT_EQ(accepted_frames, 4u);
}

TEST(MultiplexerFaults, EndsWhenAPeerKeepsSendingButDoesNotRead) {
  multiplexer_pair pair;
  pair.right.open(1), pair.right.open(2);
  // The left side never reads the frames that the right side posts here.
  while (pair.right.post(2, sample_frame((1 << 20) - 200)))
    ;
  auto f = sample_frame(0);
  f.channel = 1;
  std::optional<multiplexer::closed_state> end_state;
  for (int i = 0; i < 200'000 && !end_state; ++i) {
    pair.left.output().push(f);
    end_state = pair.transfer_right();
    pair.right_events.clear();
    pair.right.consumed(1, priority::control);
  }
  ASSERT_TRUE(end_state);
  EXPECT_EQ(end_state->cause, close_reason::protocol_error);
  EXPECT_TRUE(mentions(end_state->reason, "does not read"));
  const auto waiting = pair.right.output().queued_bytes(priority::control);
  EXPECT_LT(waiting, (5u << 20) + (65u << 10));
}

TEST(MultiplexerFaults, RejectsOpeningAChannelTwiceOrChannelZero) {
  multiplexer_pair pair;
  pair.left.open(1);
  EXPECT_THROW(pair.left.open(1), std::logic_error);
  EXPECT_THROW(pair.left.open(0), std::logic_error);
  EXPECT_FALSE(pair.left.post(2, sample_frame(1)));
}

TEST(MultiplexerFaults, EndsOnAnInvalidControlFrame) {
  const auto five = encode(std::uint32_t{5});
  const auto credit = [](std::uint32_t channel, std::uint32_t count) {
    return encode(channel, priority::control, count);
  };
  EXPECT_TRUE(mentions(fault_after(9), "frame 9 is unknown"));
  EXPECT_TRUE(mentions(fault_after(0), "frame 0 is unknown"));
  EXPECT_TRUE(mentions(fault_after(2), "a credit: byte 0"));
  EXPECT_TRUE(mentions(fault_after(2, credit(5, 1)), "more credits"));
  // Channel 6 is not open at the right side. The right side ignores a credit
  // for it, because a channel may end while a credit for it is in transit.
  EXPECT_EQ(fault_after(2, credit(6, 1)), "none");
  EXPECT_TRUE(mentions(fault_after(3, five), "a close: "));
  EXPECT_TRUE(mentions(fault_after(3, encode(0u, std::string{})), "channel 0"));
  EXPECT_TRUE(mentions(fault_after(4, five), "was not being closed"));
  EXPECT_TRUE(mentions(fault_after(5), "a goaway: "));
}

TEST(MultiplexerFaults, EndsOnAFrameOrCloseAfterAClose) {
  for (const bool again : {false, true}) {
    multiplexer_pair pair;
    std::vector<std::byte> bytes;
    const auto add = [&](const std::vector<std::byte>& more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    add(encoded_control(control_frame::close, 8u, std::string{"done"}));
    auto f = sample_frame(1);
    f.channel = 8;
    add(again ? encoded_control(control_frame::close, 8u, std::string{"done"})
              : to_bytes(f));
    const auto end_state = pair.right.receive(bytes, pair.right_events);
    ASSERT_TRUE(end_state);
    EXPECT_EQ(end_state->cause, close_reason::protocol_error);
  }
}

TEST(MultiplexerFaults, ShortensAndSanitizesReasonsOfThePeer) {
  const auto text = "\x1b[31mred\n" + std::string(5000, 'x');
  const auto shown = "?[31mred?" + std::string(988, 'x') + "...";
  multiplexer_pair pair;
  pair.right.open(5);
  send_control(pair, std::uint64_t(control_frame::close), encode(5u, text));
  send_control(pair, std::uint64_t(control_frame::goaway), encode(text));
  const auto end_state = pair.transfer_right();
  ASSERT_TRUE(end_state);
  EXPECT_EQ(end_state->reason, shown);
  ASSERT_EQ(pair.right_events.size(), 1u);
  EXPECT_EQ(pair.right_events[0].reason, shown);
}

TEST(MultiplexerFaults, SurvivesRandomFrames) {
  std::mt19937 random{23};
  for (int i = 0; i < 300; ++i) {
    multiplexer_pair pair;
    pair.right.open(1), pair.right.open(2);
    pair.right.post(1, sample_frame(1));
    pair.right.close(2, "done");
    for (int n = 0; n < 200; ++n) {
      auto f = sample_frame(random() % 40, random());
      f.channel = random() % 4;
      f.tag = random() % 7;
      if (random() % 2)
        f.payload = encode(std::uint32_t(random() % 4), std::uint8_t(0),
                           std::uint32_t(random() % 3));
      pair.left.output().push(f);
      if (pair.transfer_right())
        break;
    }
    EXPECT_LE(pair.right_events.size(), 1000u);
  }
}
