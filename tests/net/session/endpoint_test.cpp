#include "troupe/net/io/socket_address.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/session/endpoints.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

using troupe::test::mentions;
using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using control = std::shared_ptr<connection>;
using raw = std::unique_ptr<stream>;

} // namespace

TEST(Endpoint, ConnectsTwoProcesses) {
  test_endpoint left{dialing_options()}, right;
  right.authorize = [](const hello& x) {
    hello_response yes;
    yes.payload = x.payload;
    yes.responder = hello_of("right");
    return yes;
  };
  auto own_hello = hello_of("left");
  own_hello.incarnation = 5;
  own_hello.payload = {std::byte{9}};
  const auto result = await_result(
    left.dial(right.net_endpoint->advertised_address(), own_hello));
  ASSERT_TRUE(result.connection) << result.reason;
  EXPECT_EQ(result.peer.name, "right");
  EXPECT_EQ(result.payload, own_hello.payload);
  EXPECT_EQ(std::get<control>(*result.connection)->peer().name, "right");
  const auto y = right.accepted.take();
  EXPECT_EQ(y.peer, own_hello);
  EXPECT_EQ(std::get<control>(y.connection)->peer(), own_hello);
}

TEST(Endpoint, HandsOverAStreamForPurposesWithoutFrames) {
  test_endpoint left{dialing_options(secret_credentials("s"))},
    right{listening_options(secret_credentials("s"))};
  auto result = await_result(left.dial(right.net_endpoint->advertised_address(),
                                       hello_of("left", "contributions")));
  auto y = right.accepted.take();
  auto& sender = *std::get<raw>(*result.connection);
  auto& receiver = *std::get<raw>(y.connection);
  int at_once = 0;
  socklen_t size = sizeof at_once;
  ::getsockopt(receiver.descriptor(), IPPROTO_TCP, TCP_NODELAY, &at_once,
               &size);
  EXPECT_TRUE(at_once);
  left.net_endpoint.reset(); // the streams do not depend on the endpoints
  right.net_endpoint.reset();
  EXPECT_EQ(pass(sender, receiver, "as it is").text, "as it is");
  EXPECT_EQ(pass(receiver, sender, "and back").text, "and back");
}

TEST(Endpoint, RejectsWithAReasonThatBothSidesSee) {
  test_endpoint left{dialing_options()}, right;
  right.authorize = [](const hello& x) {
    return hello_response{.accepted = false,
                          .reason = "no " + x.name + " is expected",
                          .payload = {std::byte{7}}};
  };
  const auto result = await_result(
    left.dial(right.net_endpoint->advertised_address(), hello_of("left")));
  EXPECT_EQ(result.payload, std::vector{std::byte{7}})
    << "it says whether to try again";
  EXPECT_FALSE(result.connection);
  EXPECT_TRUE(result.rejected);
  EXPECT_TRUE(mentions(result.reason, "no left is expected"));
  EXPECT_TRUE(mentions(right.log.take(), "no left is expected"));
  EXPECT_TRUE(mentions(left.log.take(), "no left is expected"));
}

/// `dial` gets a timeout of one hour, but must end after the first attempt. The
/// test repeats it, because only some timings can lose the verdict. In these,
/// the acceptor closes its socket before it has read all bytes.
TEST(Endpoint, TellsBothSidesAtOnceThatTheSecretsDiffer) {
  const struct {
    const char *dialing, *listening, *dialer_reason, *listener_reason;
  } cases[] = {{"wrong", "right",
                "its secret is another than that of this process",
                "it does not know the secret"},
               {"", "right", "it requires a secret, but none is set here",
                "it has no secret, but one is required"},
               {"wrong", "", "it has no secret, but one is required",
                "it requires a secret, but none is set here"}};
  for (const auto& x : cases)
    for (int round = 1; round <= 20; ++round) {
      SCOPED_TRACE(x.listener_reason);
      test_endpoint right{listening_options(secret_credentials(x.listening))};
      test_endpoint left{dialing_options(secret_credentials(x.dialing))};
      auto own_hello = hello_of("left");
      own_hello.payload.resize(8000);
      const auto result = await_result(
        left.dial(right.net_endpoint->advertised_address(), own_hello, 1h));
      EXPECT_FALSE(result.connection);
      EXPECT_TRUE(result.rejected);
      EXPECT_EQ(result.cause, close_reason::closed);
      const std::string remedy = ": give both processes the same secret";
      EXPECT_TRUE(mentions(result.reason, x.dialer_reason + remedy))
        << result.reason;
      const auto line = right.log.take();
      EXPECT_EQ(line.rfind("warning: a connection from ", 0), 0u) << line;
      EXPECT_TRUE(mentions(line, x.listener_reason + remedy)) << line;
      EXPECT_EQ(right.net_endpoint->rejections().count, 1u);
      EXPECT_EQ(right.accepted.size(), 0u);
    }
}

TEST(Endpoint, WarnsOfWrongSecretsOnlyNowAndThen) {
  test_endpoint right{listening_options(secret_credentials("right"))},
    left{dialing_options(secret_credentials("wrong"))};
  for (int i = 0; i < 3; ++i) {
    await_result(left.dial(right.net_endpoint->advertised_address(),
                           hello_of("left"), 1h));
    const auto line = right.log.take();
    EXPECT_EQ(line.rfind("warning: ", 0) == 0, i == 0) << line;
    EXPECT_TRUE(mentions(line, "it does not know the secret")) << line;
  }
}

TEST(Endpoint, RetriesUntilThePeerListens) {
  std::optional<test_endpoint> right{std::in_place};
  const auto listen_address = right->net_endpoint->advertised_address();
  right.reset();
  test_endpoint left{dialing_options()};
  auto result = left.dial(listen_address, hello_of("left"));
  auto options = listening_options();
  options.listen = listen_address;
  right.emplace(options);
  EXPECT_TRUE(await_result(std::move(result)).connection);
}

TEST(Endpoint, ReportsTheEarlierHandshakeFailureWhenThePeerIsGone) {
  auto listening = listen_on(resolve({"127.0.0.1", 0}).found.at(0));
  ASSERT_TRUE(listening);
  const auto port = local_address(listening.get()).port();
  test_endpoint left{dialing_options()};
  auto result = left.dial({"127.0.0.1", port}, hello_of("left"), 2s);
  pollfd incoming{listening.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&incoming, 1, 60'000), 1);
  socket_address peer;
  accept_from(listening.get(), peer).reset(); // closed without a byte
  listening.reset();
  const auto end = await_result(std::move(result));
  EXPECT_TRUE(mentions(end.reason, "Connection refused")) << end.reason;
  EXPECT_TRUE(mentions(end.reason, "it may require other credentials"))
    << end.reason;
}

TEST(Endpoint, HintsAtAnotherPortIfItsPortIsInUse) {
  test_endpoint right;
  auto options = listening_options();
  options.listen = right.net_endpoint->advertised_address();
  try {
    endpoint{options};
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_TRUE(mentions(e.what(), to_string(*options.listen))) << e.what();
    EXPECT_TRUE(mentions(e.what(), "use another port")) << e.what();
  }
}

TEST(Endpoint, FailsAtTheDeadlineWithTheLastReason) {
  std::optional<test_endpoint> right{std::in_place};
  const auto listen_address = right->net_endpoint->advertised_address();
  right.reset();
  test_endpoint left{dialing_options()};
  const auto result =
    await_result(left.dial(listen_address, hello_of("left"), 100ms));
  EXPECT_FALSE(result.connection);
  EXPECT_EQ(result.cause, close_reason::closed);
  EXPECT_TRUE(mentions(result.reason, to_string(listen_address)))
    << result.reason;
  EXPECT_TRUE(mentions(result.reason, "Connection refused")) << result.reason;
}

TEST(Endpoint, TimesOutIfThePeerDoesNotRespond) {
  // this endpoint has no handler for connections, so dialing peers wait
  endpoint right{listening_options()};
  test_endpoint left{dialing_options()};
  const auto result = await_result(
    left.dial(right.advertised_address(), hello_of("left"), 100ms));
  EXPECT_FALSE(result.connection);
  EXPECT_EQ(result.cause, close_reason::timed_out);
}

TEST(Endpoint, LeavesLoopbackOnlyWithCredentials) {
  auto options = listening_options();
  options.listen = address{"0.0.0.0", 0};
  EXPECT_THROW(endpoint{options}, std::invalid_argument);
  options.connection.credentials = secret_credentials("s");
  EXPECT_NO_THROW(endpoint{options});
  test_endpoint left{dialing_options()};
  EXPECT_THROW(left.dial({"192.0.2.1", 80}, hello_of("left")),
               std::invalid_argument);
}

TEST(Endpoint, WarnsOnceThatASecretDoesNotEncrypt) {
  auto options = listening_options(secret_credentials("s"));
  options.listen = address{"0.0.0.0", 0};
  test_endpoint server{options};
  ASSERT_EQ(server.log.size(), 1u);
  EXPECT_TRUE(mentions(server.log.take(), "warning: a secret authenticates"));
  EXPECT_EQ(
    test_endpoint{listening_options(secret_credentials("s"))}.log.size(), 0u);
}

TEST(Endpoint, FindsAFreePortInItsRange) {
  test_endpoint first;
  auto options = listening_options();
  options.listen = first.net_endpoint->advertised_address();
  EXPECT_THROW(endpoint{options}, std::runtime_error);
  options.last_port =
    static_cast<std::uint16_t>(std::min(options.listen->port + 50, 65535));
  const test_endpoint second{options};
  EXPECT_GT(second.net_endpoint->advertised_address().port,
            options.listen->port);
  EXPECT_LE(second.net_endpoint->advertised_address().port, options.last_port);
}

TEST(Endpoint, PublishesTheAdvertisedAddress) {
  auto options = listening_options();
  options.advertised = address{"node-1", 0};
  const test_endpoint server{options};
  EXPECT_EQ(server.net_endpoint->advertised_address().host, "node-1");
  EXPECT_NE(server.net_endpoint->advertised_address().port, 0);
}

TEST(Endpoint, ResolvesHostNames) {
  auto options = listening_options();
  options.listen = address{"localhost", 0};
  test_endpoint right{options}, left{dialing_options()};
  EXPECT_TRUE(await_result(left.dial(right.net_endpoint->advertised_address(),
                                     hello_of("left")))
                .connection);
  const auto result = await_result(
    left.dial({"no-such-host.invalid", 1}, hello_of("left"), 200ms));
  EXPECT_FALSE(result.connection);
}

TEST(Endpoint, SupportsIpv6) {
  auto options = listening_options();
  options.listen = address{"::1", 0};
  std::optional<test_endpoint> right;
  try {
    right.emplace(options);
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << "no IPv6 here: " << e.what();
  }
  test_endpoint left{dialing_options()};
  EXPECT_TRUE(await_result(left.dial(right->net_endpoint->advertised_address(),
                                     hello_of("left")))
                .connection);
}

TEST(Endpoint, EndsItsDialsWhenItCloses) {
  endpoint right{listening_options()};
  test_endpoint left{dialing_options()};
  auto result = left.dial(right.advertised_address(), hello_of("left"));
  left.net_endpoint.reset();
  EXPECT_TRUE(
    mentions(await_result(std::move(result)).reason, "the endpoint closes"));
}

TEST(Endpoint, ClosesItsConnectionsWithAReason) {
  connected_endpoints endpoints;
  mailbox<close_event> left, right;
  endpoints.left_connection->on_closed([&](close_reason how, auto& why) {
    left.put({how, why});
  });
  endpoints.right_connection->on_closed([&](close_reason how, auto& why) {
    right.put({how, why});
  });
  endpoints.left.net_endpoint.reset();
  EXPECT_EQ(left.take().reason, "the endpoint closes");
  const auto there = right.take();
  EXPECT_EQ(there.cause, close_reason::closed);
  EXPECT_EQ(there.reason, "the endpoint closes");
}

TEST(Endpoint, RejectsContradictoryOptions) {
  auto options = listening_options();
  options.connection.heartbeat_timeout = options.connection.heartbeat_interval;
  EXPECT_THROW(endpoint{options}, std::invalid_argument);
  options = listening_options();
  options.listen->port = 2000;
  options.last_port = 1999;
  EXPECT_THROW(endpoint{options}, std::invalid_argument);
}
