#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/net/session/endpoints.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using link_ptr = std::shared_ptr<troupe::net::link>;

frame fact(std::uint64_t tag, std::size_t size = 8,
           priority how = priority::control) {
  return {.priority = how,
          .tag = tag,
          .payload = std::vector<std::byte>(size, std::byte(tag))};
}

/// One channel of a connection, with a listener at each end.
struct line {
  explicit line(connected_hosts& on, std::uint32_t channel = 1)
    : left{on.at_left->open(channel)}, right{on.at_right->open(channel)} {
    left->listen(at_left);
    right->listen(at_right);
  }
  link_ptr left, right;
  std::shared_ptr<ear> at_left = std::make_shared<ear>();
  std::shared_ptr<ear> at_right = std::make_shared<ear>();
};

/// Posts `count` frames and expects them in order at the other end.
void carries(line& on, std::uint64_t count, std::size_t size) {
  std::thread poster{[&] {
    for (std::uint64_t i = 0; i < count; ++i)
      while (!on.left->post(fact(i, size)))
        std::this_thread::yield();
  }};
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto x = on.at_right->frames.take();
    ASSERT_EQ(x.tag, i);
    ASSERT_EQ(x.payload, fact(i, size).payload);
    on.right->consumed(x.priority);
  }
  poster.join();
}

class SecuredConnection : public certificate_test {
protected:
  static credentials under(files x) {
    credentials how;
    how.tls = std::make_shared<const files>(std::move(x));
    return how;
  }
};

} // namespace

TEST(Connection, CarriesFramesOfAChannelInOrderBothWays) {
  connected_hosts x;
  line on{x};
  carries(on, 20'000, 100);
  std::swap(on.left, on.right);
  std::swap(on.at_left, on.at_right);
  carries(on, 2'000, 10'000);
}

TEST_F(SecuredConnection, CarriesFramesOfAChannelWithTls) {
  const auto left = under(good("left")), right = under(good("right"));
  connected_hosts x{dialing_only(left), listening(right)};
  line on{x};
  carries(on, 5'000, 1000);
}

TEST_F(SecuredConnection, IsRejectedWithAnInvalidCertificate) {
  host right{listening(under(good()))};
  for (const auto& bad : {expired(), foreign()}) {
    host left{dialing_only(under(bad))};
    const auto x = soon(left.dial(right.it->reachable_at(), hello_of("left")));
    EXPECT_FALSE(x.it);
    EXPECT_NE(x.why.find("TLS: "), std::string::npos) << x.why;
  }
  host clear{dialing_only()};
  EXPECT_FALSE(
    soon(clear.dial(right.it->reachable_at(), hello_of("left"), 200ms)).it);
  EXPECT_EQ(right.guests.size(), 0u);
}

TEST(Connection, CarriesManyChannelsAtOnce) {
  connected_hosts x;
  std::vector<std::unique_ptr<line>> lines;
  std::vector<std::thread> threads;
  for (std::uint32_t c = 1; c <= 8; ++c)
    lines.push_back(std::make_unique<line>(x, c * 1000));
  for (auto& on : lines)
    threads.emplace_back([&on] { carries(*on, 2'000, 64); });
  for (auto& t : threads)
    t.join();
}

TEST(Connection, AcceptsAPostFromWithinAListener) {
  struct echo : link_listener {
    void heard(frame&& x) override {
      const auto how = x.priority;
      EXPECT_TRUE(by->post(std::move(x)));
      by->consumed(how);
    }
    void ended(ending, const std::string&) override { by.reset(); }
    link_ptr by;
  };
  connected_hosts x;
  const auto right = std::make_shared<echo>();
  const auto left = x.at_left->open(1);
  const auto at_left = std::make_shared<ear>();
  right->by = x.at_right->open(1);
  left->listen(at_left);
  right->by->listen(right);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(left->post(fact(i)));
    EXPECT_EQ(at_left->frames.take().tag, i);
    left->consumed(priority::control);
  }
}

TEST(Connection, KeepsFramesUntilAListenerIsSet) {
  connected_hosts x;
  const auto left = x.at_left->open(1);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_TRUE(left->post(fact(i)));
  const auto right = x.at_right->open(1);
  const auto at_right = std::make_shared<ear>();
  right->listen(at_right);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(at_right->frames.take().tag, i);
}

TEST(Connection, ClosesOneChannelAndKeepsTheOthers) {
  connected_hosts x;
  line one{x, 1}, two{x, 2};
  one.left->post(fact(7));
  one.left->close("done");
  EXPECT_EQ(one.at_right->frames.take().tag, 7u);
  EXPECT_EQ(one.at_right->ends.take().why, "done");
  EXPECT_EQ(one.at_left->ends.take().why, "done");
  EXPECT_FALSE(one.left->post(fact(8)));
  carries(two, 10, 10);
}

TEST(Connection, EndsOnBothSidesAfterAllPostedFrames) {
  connected_hosts x;
  line on{x};
  mailbox<last_words> ends;
  x.at_right->on_end([&](ending how, auto& why) { ends.put({how, why}); });
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_TRUE(on.left->post(fact(i, 200'000, priority::bulk)));
  x.at_left->close("enough");
  EXPECT_FALSE(on.left->post(fact(1)));
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_EQ(on.at_right->frames.take().tag, i);
  for (auto* at : {on.at_right.get(), on.at_left.get()}) {
    const auto last = at->ends.take();
    EXPECT_EQ(last.how, ending::dead);
    EXPECT_EQ(last.why, "enough");
  }
  EXPECT_EQ(ends.take().why, "enough");
}

TEST(Connection, NotifiesLateListenersOfItsEnd) {
  connected_hosts x;
  const auto left = x.at_left->open(1);
  left->post(fact(3));
  x.at_left->close("enough");
  mailbox<last_words> ends;
  x.at_right->on_end([&](ending how, auto& why) { ends.put({how, why}); });
  EXPECT_EQ(ends.take().why, "enough");
  x.at_right->on_end([&](ending how, auto& why) { ends.put({how, why}); });
  EXPECT_EQ(ends.take().why, "enough");
  const auto right = x.at_right->open(1);
  const auto late = std::make_shared<ear>();
  right->listen(late);
  EXPECT_EQ(late->frames.take().tag, 3u);
  EXPECT_EQ(late->ends.take().why, "enough");
}

TEST(Connection, IsClosedWithItsEndpoint) {
  connected_hosts x;
  line on{x};
  x.right.it.reset();
  EXPECT_EQ(on.at_left->ends.take().how, ending::dead);
  EXPECT_EQ(on.at_right->ends.take().how, ending::dead);
  EXPECT_FALSE(on.right->post(fact(1)));
  on.right->consumed(priority::control);
  on.right->close("late");
}

TEST(Connection, ReceivesHeartbeatsWhileIdle) {
  auto left = dialing_only(), right = listening();
  left.heartbeat = right.heartbeat = 5ms;
  connected_hosts x{left, right};
  const auto end = std::chrono::steady_clock::now() + long_enough;
  int beats = 0;
  for (auto before = 0ms; beats < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    const auto now = x.at_left->silence();
    beats += now < before; // a byte was received
    before = now;
  }
}
