#include "troupe/net/codec.hpp"
#include "troupe/net/switchboard.hpp"
#include "troupe/tests/net/frames.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using events = std::vector<switchboard::event>;

/// Two ends; bytes move when told to.
struct both {
  /// @returns how the receiver's connection ended by it.
  static std::optional<switchboard::end> carry(switchboard& from,
                                               switchboard& to, events& heard,
                                               std::size_t piece = 1 << 20) {
    while (!from.out().empty()) {
      const auto all = from.out().front();
      const auto some = all.first(std::min(piece, all.size()));
      const auto over = to.take(some, heard);
      from.out().written(some.size());
      if (over)
        return over;
    }
    return {};
  }
  auto there(std::size_t piece = 1 << 20) {
    return carry(left, right, at_right, piece);
  }
  auto back() { return carry(right, left, at_left); }

  switchboard left{frame_limits{}}, right{frame_limits{}};
  events at_left, at_right;
};

frame letter(std::size_t size, std::uint32_t seed = 1,
             priority how = priority::control) {
  auto x = some_frame(size, seed);
  x.priority = how;
  return x;
}

/// What came, as what was posted.
std::vector<std::pair<std::uint32_t, std::vector<std::byte>>>
payloads(const events& all) {
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> found;
  for (const auto& e : all)
    if (e.heard)
      found.emplace_back(e.channel, e.heard->payload);
  return found;
}

void tell_service(both& x, std::uint64_t what, std::vector<std::byte> payload) {
  x.left.out().push({.tag = what, .payload = std::move(payload)});
}

/// How the right side ends when the left says that.
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

TEST(Switchboard, CarriesManyChannelsEachInOrder) {
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

TEST(Switchboard, LetsControlOvertakeBulk) {
  both x;
  x.left.open(1), x.right.open(1);
  for (const auto how : {priority::bulk, priority::bulk, priority::control})
    EXPECT_TRUE(x.left.post(1, letter(100, 1, how)));
  x.there();
  ASSERT_EQ(x.at_right.size(), 3u);
  EXPECT_EQ(x.at_right[0].heard->priority, priority::control);
}

TEST(Switchboard, TakesNoMoreThanTheCreditsUntilFramesAreConsumed) {
  for (const auto how : {priority::control, priority::bulk}) {
    both x;
    x.left.open(1), x.right.open(1);
    for (std::size_t i = 0; i < credits_of(how); ++i)
      EXPECT_TRUE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how)));
    x.there();
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how))); // heard, not consumed
    for (std::size_t i = 0; i < credits_of(how); ++i)
      x.right.consumed(1, how);
    x.back();
    for (std::size_t i = 0; i < credits_of(how); ++i)
      EXPECT_TRUE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.left.post(1, letter(1, 1, how)));
    EXPECT_FALSE(x.there());
  }
}

TEST(Switchboard, GivesCreditBackInBatches) {
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

TEST(Switchboard, CountsWhatIsConsumedOnceTooOftenOnce) {
  both x;
  x.left.open(1), x.right.open(1);
  for (int i = 0; i < 1000; ++i)
    x.right.consumed(1, priority::control);
  EXPECT_TRUE(x.right.out().empty());
  x.left.post(1, letter(1));
  EXPECT_FALSE(x.there());
}

TEST(Switchboard, BreaksWithWhoeverSendsMoreThanHisCredits) {
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

TEST(Switchboard, KeepsWhatComesBeforeAChannelIsOpened) {
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

TEST(Switchboard, BoundsWhatItKeepsForChannelsThatNobodyOpened) {
  both many;
  for (std::uint32_t c = 1; c <= switchboard::most_unopened + 1; ++c) {
    many.left.open(c);
    many.left.post(c, letter(1));
  }
  const auto over = many.there();
  ASSERT_TRUE(over);
  EXPECT_TRUE(mentions(over->why, "channels that nobody opened"));

  both large;
  std::optional<switchboard::end> end;
  large.left.open(1);
  for (int i = 0; i < 17 && !end; ++i) {
    EXPECT_TRUE(large.left.post(1, letter(1 << 20)));
    end = large.there();
  }
  ASSERT_TRUE(end);
  EXPECT_TRUE(mentions(end->why, "bytes for channels that nobody opened"));
}

TEST(Switchboard, TakesNoMoreThanSomeMegabytesThatNobodyReads) {
  both x;
  x.left.open(1);
  std::size_t taken = 0;
  while (x.left.post(1, letter(1 << 20)))
    ++taken;
  EXPECT_EQ(taken, 4u);
}

TEST(Switchboard, ClosesAChannelOnBothSidesAfterAllThatWasPosted) {
  both x;
  x.left.open(1), x.right.open(1);
  x.left.post(1, letter(1, 1, priority::bulk));
  x.left.post(1, letter(1));
  x.left.close(1, "done");
  EXPECT_FALSE(x.left.post(1, letter(1)));
  x.right.post(1, letter(1)); // on its way meanwhile
  x.there();
  ASSERT_EQ(x.at_right.size(), 3u);
  EXPECT_EQ(x.at_right[2].ended, "done");
  EXPECT_FALSE(x.right.post(1, letter(1)));
  x.back();
  ASSERT_EQ(x.at_left.size(), 2u);
  EXPECT_TRUE(x.at_left[0].heard);
  EXPECT_EQ(x.at_left[1].ended, "done");
  x.left.open(1), x.right.open(1); // it is free again
  EXPECT_TRUE(x.left.post(1, letter(1)));
  EXPECT_FALSE(x.there());
}

TEST(Switchboard, ClosesAChannelThatBothCloseOnce) {
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

TEST(Switchboard, TellsOfAnEndThatCameBeforeAChannelWasOpened) {
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

TEST(Switchboard, SaysGoodbyeAfterAllThatWasPosted) {
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

TEST(Switchboard, OpensAChannelOnceAndNeverItsOwn) {
  both x;
  x.left.open(1);
  EXPECT_THROW(x.left.open(1), std::logic_error);
  EXPECT_THROW(x.left.open(0), std::logic_error);
  EXPECT_FALSE(x.left.post(2, letter(1)));
}

TEST(Switchboard, BreaksWithWhoeverSaysWhatMeansNothing) {
  const auto five = encode(std::uint32_t{5});
  const auto credit = [](std::uint32_t channel, std::uint32_t count) {
    return encode(channel, priority::control, count);
  };
  EXPECT_TRUE(mentions(fault_of(9), "says 9"));
  EXPECT_TRUE(mentions(fault_of(0), "says 0"));
  EXPECT_TRUE(mentions(fault_of(2), "a credit: byte 0"));
  EXPECT_TRUE(mentions(fault_of(2, credit(5, 1)), "more credits"));
  EXPECT_EQ(fault_of(2, credit(6, 1)), "none"); // it may have been closed
  EXPECT_TRUE(mentions(fault_of(3, five), "a close: "));
  EXPECT_TRUE(mentions(fault_of(3, encode(0u, std::string{})), "channel 0"));
  EXPECT_TRUE(mentions(fault_of(4, five), "was not being closed"));
  EXPECT_TRUE(mentions(fault_of(5), "a goodbye: "));
}

TEST(Switchboard, BreaksWithAFrameOrCloseAfterAClose) {
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

TEST(Switchboard, OfRandomFramesHarmsNobody) {
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
