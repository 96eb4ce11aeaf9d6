#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/net/session/multiplexers.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

void tell_service(both& x, std::uint64_t what, std::vector<std::byte> payload) {
  x.left.out().push({.tag = what, .payload = std::move(payload)});
}

/// The reason why the right side ends after a control frame; "none" if it does
/// not.
std::string fault_of(std::uint64_t what, std::vector<std::byte> payload = {}) {
  both x;
  x.right.open(5);
  tell_service(x, what, std::move(payload));
  const auto over = x.there();
  return over && over->how == ending::broken ? over->why : "none";
}

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

template <class... Ts>
std::vector<std::byte> said(service what, const Ts&... xs) {
  return to_bytes({.tag = std::uint64_t(what), .payload = encode(xs...)});
}

} // namespace

TEST(MultiplexerFaults, IgnoresConsumedCallsBeyondTheReceivedFrames) {
  both x;
  x.left.open(1), x.right.open(1);
  for (int i = 0; i < 1000; ++i)
    x.right.consumed(1, priority::control);
  EXPECT_TRUE(x.right.out().empty());
  x.left.post(1, letter(1));
  EXPECT_FALSE(x.there());
}

TEST(MultiplexerFaults, EndsWhenAPeerExceedsItsCredits) {
  both x;
  x.right.open(1);
  for (std::size_t i = 0; i <= credits_of(priority::control); ++i) {
    auto f = letter(1);
    f.channel = 1;
    x.left.out().push(f);
  }
  const auto over = x.there();
  ASSERT_TRUE(over);
  EXPECT_EQ(over->how, ending::broken);
  EXPECT_TRUE(mentions(over->why, "more frames on channel 1"));
}

TEST(MultiplexerFaults, BoundsTheBufferForChannelsThatAreNotOpen) {
  // one empty frame each; then one close each, with the longest reason
  for (const bool ends : {false, true}) {
    both many;
    const auto each = switchboard::bytes_per_channel
                      + switchboard::bytes_per_event + (ends ? 1000 : 0);
    const auto most = switchboard::most_kept_bytes / each;
    std::optional<switchboard::end> over;
    std::uint32_t c = 0;
    while (!over && c <= most) {
      many.left.open(++c);
      if (ends)
        many.left.close(c, std::string(2000, 'x'));
      else
        many.left.post(c, letter(0));
      over = many.there();
      many.right.out().written(many.right.out().front().size());
    }
    EXPECT_EQ(c, most + 1);
    ASSERT_TRUE(over);
    EXPECT_EQ(over->how, ending::broken);
    EXPECT_TRUE(mentions(over->why, "channels that are not open"));
  }

  both large;
  std::optional<switchboard::end> end;
  large.left.open(1);
  for (int i = 0; i < 17 && !end; ++i) {
    EXPECT_TRUE(large.left.post(1, letter(1 << 20)));
    end = large.there();
  }
  ASSERT_TRUE(end);
  EXPECT_TRUE(mentions(end->why, "bytes for channels that are not open"));
}

TEST(MultiplexerFaults, AcceptsAtMost4MiBThatThePeerDoesNotRead) {
  both x;
  x.left.open(1);
  std::size_t taken = 0;
  while (x.left.post(1, letter(1 << 20)))
    ++taken;
  EXPECT_EQ(taken, 4u);
}

TEST(MultiplexerFaults, EndsWhenAPeerKeepsSendingButDoesNotRead) {
  both x;
  x.right.open(1), x.right.open(2);
  while (x.right.post(2, letter((1 << 20) - 200))) // never read by the peer
    ;
  auto f = letter(0);
  f.channel = 1;
  std::optional<switchboard::end> over;
  for (int i = 0; i < 200'000 && !over; ++i) {
    x.left.out().push(f);
    over = x.there();
    x.at_right.clear();
    x.right.consumed(1, priority::control);
  }
  ASSERT_TRUE(over);
  EXPECT_EQ(over->how, ending::broken);
  EXPECT_TRUE(mentions(over->why, "does not read"));
  const auto waiting = x.right.out().waiting(priority::control);
  EXPECT_LT(waiting, (5u << 20) + (65u << 10));
}

TEST(MultiplexerFaults, RejectsOpeningAChannelTwiceOrChannelZero) {
  both x;
  x.left.open(1);
  EXPECT_THROW(x.left.open(1), std::logic_error);
  EXPECT_THROW(x.left.open(0), std::logic_error);
  EXPECT_FALSE(x.left.post(2, letter(1)));
}

TEST(MultiplexerFaults, EndsOnAnInvalidControlFrame) {
  const auto five = encode(std::uint32_t{5});
  const auto credit = [](std::uint32_t channel, std::uint32_t count) {
    return encode(channel, priority::control, count);
  };
  EXPECT_TRUE(mentions(fault_of(9), "frame 9 is unknown"));
  EXPECT_TRUE(mentions(fault_of(0), "frame 0 is unknown"));
  EXPECT_TRUE(mentions(fault_of(2), "a credit: byte 0"));
  EXPECT_TRUE(mentions(fault_of(2, credit(5, 1)), "more credits"));
  EXPECT_EQ(fault_of(2, credit(6, 1)), "none"); // it may have been closed
  EXPECT_TRUE(mentions(fault_of(3, five), "a close: "));
  EXPECT_TRUE(mentions(fault_of(3, encode(0u, std::string{})), "channel 0"));
  EXPECT_TRUE(mentions(fault_of(4, five), "was not being closed"));
  EXPECT_TRUE(mentions(fault_of(5), "a goaway: "));
}

TEST(MultiplexerFaults, EndsOnAFrameOrCloseAfterAClose) {
  for (const bool again : {false, true}) {
    both x;
    std::vector<std::byte> bytes;
    const auto add = [&](const std::vector<std::byte>& more) {
      bytes.insert(bytes.end(), more.begin(), more.end());
    };
    add(said(service::close, 8u, std::string{"done"}));
    auto f = letter(1);
    f.channel = 8;
    add(again ? said(service::close, 8u, std::string{"done"}) : to_bytes(f));
    const auto over = x.right.take(bytes, x.at_right);
    ASSERT_TRUE(over);
    EXPECT_EQ(over->how, ending::broken);
  }
}

TEST(MultiplexerFaults, ShortensAndSanitizesReasonsOfThePeer) {
  const auto text = "\x1b[31mred\n" + std::string(5000, 'x');
  const auto shown = "?[31mred?" + std::string(988, 'x') + "...";
  both x;
  x.right.open(5);
  tell_service(x, std::uint64_t(service::close), encode(5u, text));
  tell_service(x, std::uint64_t(service::goodbye), encode(text));
  const auto over = x.there();
  ASSERT_TRUE(over);
  EXPECT_EQ(over->why, shown);
  ASSERT_EQ(x.at_right.size(), 1u);
  EXPECT_EQ(x.at_right[0].ended, shown);
}

TEST(MultiplexerFaults, SurvivesRandomFrames) {
  std::mt19937 random{23};
  for (int i = 0; i < 300; ++i) {
    both x;
    x.right.open(1), x.right.open(2);
    x.right.post(1, letter(1));
    x.right.close(2, "done");
    for (int n = 0; n < 200; ++n) {
      auto f = letter(random() % 40, random());
      f.channel = random() % 4;
      f.tag = random() % 7;
      if (random() % 2)
        f.payload = encode(std::uint32_t(random() % 4), std::uint8_t(0),
                           std::uint32_t(random() % 3));
      x.left.out().push(f);
      if (x.there())
        break;
    }
    EXPECT_LE(x.at_right.size(), 1000u);
  }
}
