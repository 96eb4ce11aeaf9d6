#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/net/session/endpoints.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace troupe::net;
using namespace troupe::net::testing;
using troupe::test::becomes_true;

namespace {

using channel_ptr = std::shared_ptr<troupe::net::channel>;

frame numbered_frame(std::uint64_t tag, std::size_t size = 8,
                     priority frame_priority = priority::control) {
  return {.priority = frame_priority,
          .tag = tag,
          .payload = std::vector<std::byte>(size, std::byte(tag))};
}

/// Both ends of a channel, each with a listener.
struct channel_pair {
  explicit channel_pair(connected_endpoints& endpoints,
                        std::uint32_t channel = 1)
    : left{endpoints.left_connection->open(channel)},
      right{endpoints.right_connection->open(channel)} {
    left->set_listener(left_listener);
    right->set_listener(right_listener);
  }
  channel_ptr left, right;
  std::shared_ptr<recording_listener> left_listener =
    std::make_shared<recording_listener>();
  std::shared_ptr<recording_listener> right_listener =
    std::make_shared<recording_listener>();
};

/// Posts `count` frames at the left end, and expects them in order at the right
/// end.
void expect_carried(channel_pair& pair, std::uint64_t count, std::size_t size) {
  std::thread poster{[&] {
    for (std::uint64_t i = 0; i < count; ++i)
      ASSERT_TRUE(
        becomes_true([&] { return pair.left->post(numbered_frame(i, size)); }));
  }};
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto x = pair.right_listener->frames.take();
    ASSERT_EQ(x.tag, i);
    ASSERT_EQ(x.payload, numbered_frame(i, size).payload);
    pair.right->consumed(x.priority);
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
  connected_endpoints endpoints;
  channel_pair pair{endpoints};
  expect_carried(pair, 20'000, 100);
  std::swap(pair.left, pair.right);
  std::swap(pair.left_listener, pair.right_listener);
  expect_carried(pair, 2'000, 10'000);
}

TEST_F(SecuredConnection, CarriesFramesOfAChannelWithTls) {
  const auto left = under(good("left")), right = under(good("right"));
  connected_endpoints endpoints{dialing_options(left),
                                listening_options(right)};
  channel_pair pair{endpoints};
  expect_carried(pair, 5'000, 1000);
}

TEST_F(SecuredConnection, IsRejectedWithAnInvalidCertificate) {
  test_endpoint right{listening_options(under(good()))};
  for (const auto& bad : {expired(), foreign()}) {
    test_endpoint left{dialing_options(under(bad))};
    const auto result = await_result(
      left.dial(right.net_endpoint->advertised_address(), hello_of("left")));
    EXPECT_FALSE(result.connection);
    EXPECT_NE(result.reason.find("TLS: "), std::string::npos) << result.reason;
  }
  test_endpoint clear{dialing_options()};
  EXPECT_FALSE(await_result(clear.dial(right.net_endpoint->advertised_address(),
                                       hello_of("left"), 200ms))
                 .connection);
  EXPECT_EQ(right.accepted.size(), 0u);
}

TEST(Connection, CarriesManyChannelsAtOnce) {
  connected_endpoints endpoints;
  std::vector<std::unique_ptr<channel_pair>> lines;
  std::vector<std::thread> threads;
  for (std::uint32_t c = 1; c <= 8; ++c)
    lines.push_back(std::make_unique<channel_pair>(endpoints, c * 1000));
  for (auto& pair : lines)
    threads.emplace_back([&pair] { expect_carried(*pair, 2'000, 64); });
  for (auto& t : threads)
    t.join();
}

TEST(Connection, AcceptsAPostFromWithinAListener) {
  struct echo : channel_listener {
    void on_frame(frame&& x) override {
      const auto how = x.priority;
      EXPECT_TRUE(channel->post(std::move(x)));
      channel->consumed(how);
    }
    void on_closed(close_reason, const std::string&) override {
      channel.reset();
    }
    channel_ptr channel;
  };
  connected_endpoints endpoints;
  const auto right = std::make_shared<echo>();
  const auto left = endpoints.left_connection->open(1);
  const auto at_left = std::make_shared<recording_listener>();
  right->channel = endpoints.right_connection->open(1);
  left->set_listener(at_left);
  right->channel->set_listener(right);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(left->post(numbered_frame(i)));
    EXPECT_EQ(at_left->frames.take().tag, i);
    left->consumed(priority::control);
  }
}

TEST(Connection, KeepsFramesUntilAListenerIsSet) {
  connected_endpoints endpoints;
  const auto left = endpoints.left_connection->open(1);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_TRUE(left->post(numbered_frame(i)));
  const auto right = endpoints.right_connection->open(1);
  const auto at_right = std::make_shared<recording_listener>();
  right->set_listener(at_right);
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(at_right->frames.take().tag, i);
}

TEST(Connection, ClosesOneChannelAndKeepsTheOthers) {
  connected_endpoints endpoints;
  channel_pair one{endpoints, 1}, two{endpoints, 2};
  one.left->post(numbered_frame(7));
  one.left->close("done");
  EXPECT_EQ(one.right_listener->frames.take().tag, 7u);
  EXPECT_EQ(one.right_listener->closings.take().reason, "done");
  EXPECT_EQ(one.left_listener->closings.take().reason, "done");
  EXPECT_FALSE(one.left->post(numbered_frame(8)));
  expect_carried(two, 10, 10);
}

TEST(Connection, EndsOnBothSidesAfterAllPostedFrames) {
  connected_endpoints endpoints;
  channel_pair pair{endpoints};
  mailbox<close_event> ends;
  endpoints.right_connection->on_closed([&](close_reason how, auto& why) {
    ends.put({how, why});
  });
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_TRUE(pair.left->post(numbered_frame(i, 200'000, priority::bulk)));
  EXPECT_FALSE(endpoints.right_connection->ended_by_close());
  endpoints.left_connection->close("enough");
  EXPECT_FALSE(pair.left->post(numbered_frame(1)));
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_EQ(pair.right_listener->frames.take().tag, i);
  for (auto* at : {pair.right_listener.get(), pair.left_listener.get()}) {
    const auto last = at->closings.take();
    EXPECT_EQ(last.cause, close_reason::closed);
    EXPECT_EQ(last.reason, "enough");
  }
  EXPECT_EQ(ends.take().reason, "enough");
  EXPECT_TRUE(endpoints.left_connection->ended_by_close());
  EXPECT_TRUE(endpoints.right_connection->ended_by_close());
}

TEST(Connection, NotifiesLateListenersOfItsEnd) {
  connected_endpoints endpoints;
  const auto left = endpoints.left_connection->open(1);
  left->post(numbered_frame(3));
  endpoints.left_connection->close("enough");
  mailbox<close_event> ends;
  endpoints.right_connection->on_closed([&](close_reason how, auto& why) {
    ends.put({how, why});
  });
  EXPECT_EQ(ends.take().reason, "enough");
  endpoints.right_connection->on_closed([&](close_reason how, auto& why) {
    ends.put({how, why});
  });
  EXPECT_EQ(ends.take().reason, "enough");
  const auto right = endpoints.right_connection->open(1);
  const auto late = std::make_shared<recording_listener>();
  right->set_listener(late);
  EXPECT_EQ(late->frames.take().tag, 3u);
  EXPECT_EQ(late->closings.take().reason, "enough");
}

TEST(Connection, IsClosedWithItsEndpoint) {
  connected_endpoints endpoints;
  channel_pair pair{endpoints};
  endpoints.right.net_endpoint.reset();
  EXPECT_EQ(pair.left_listener->closings.take().cause, close_reason::closed);
  EXPECT_EQ(pair.right_listener->closings.take().cause, close_reason::closed);
  EXPECT_FALSE(pair.right->post(numbered_frame(1)));
  pair.right->consumed(priority::control);
  pair.right->close("late");
}

TEST(Connection, ReceivesHeartbeatsWhileIdle) {
  auto left = dialing_options(), right = listening_options();
  left.connection.heartbeat_interval = right.connection.heartbeat_interval =
    5ms;
  connected_endpoints endpoints{left, right};
  const auto end = std::chrono::steady_clock::now() + max_wait;
  int heartbeats = 0;
  for (auto before = 0ms; heartbeats < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    const auto now = endpoints.left_connection->silence();
    // the silence became shorter, so a byte was received
    heartbeats += now < before;
    before = now;
  }
}
