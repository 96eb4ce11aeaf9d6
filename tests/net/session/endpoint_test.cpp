#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/session/endpoints.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using control = std::shared_ptr<connection>;
using raw = std::unique_ptr<stream>;

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

} // namespace

TEST(Endpoint, ConnectsTwoProcesses) {
  host left{dialing_only()}, right;
  right.decide = [](const hello& x) {
    verdict yes;
    yes.note = x.note;
    yes.who = hello_of("right");
    return yes;
  };
  auto who = hello_of("left");
  who.incarnation = 5;
  who.note = {std::byte{9}};
  const auto x = soon(left.dial(right.it->reachable_at(), who));
  ASSERT_TRUE(x.it) << x.why;
  EXPECT_EQ(x.peer.name, "right");
  EXPECT_EQ(x.note, who.note);
  EXPECT_EQ(std::get<control>(*x.it)->peer().name, "right");
  const auto y = right.guests.take();
  EXPECT_EQ(y.who, who);
  EXPECT_EQ(std::get<control>(y.it)->peer(), who);
}

TEST(Endpoint, HandsOverAStreamForPurposesWithoutFrames) {
  host left{dialing_only(secret("s"))}, right{listening(secret("s"))};
  auto x = soon(left.dial(right.it->reachable_at(), hello_of("left", "parts")));
  auto y = right.guests.take();
  auto& from = *std::get<raw>(*x.it);
  auto& to = *std::get<raw>(y.it);
  int at_once = 0;
  socklen_t size = sizeof at_once;
  ::getsockopt(to.descriptor(), IPPROTO_TCP, TCP_NODELAY, &at_once, &size);
  EXPECT_TRUE(at_once);
  left.it.reset(); // the stream needs no endpoint any more
  right.it.reset();
  EXPECT_EQ(pass(from, to, "as it is").text, "as it is");
  EXPECT_EQ(pass(to, from, "and back").text, "and back");
}

TEST(Endpoint, RejectsWithAReasonThatBothSidesSee) {
  host left{dialing_only()}, right;
  right.decide = [](const hello& x) {
    return verdict{.taken = false,
                   .why = "no " + x.name + " is expected",
                   .note = {std::byte{7}}};
  };
  const auto x = soon(left.dial(right.it->reachable_at(), hello_of("left")));
  EXPECT_EQ(x.note, std::vector{std::byte{7}})
    << "it says whether to try again";
  EXPECT_FALSE(x.it);
  EXPECT_TRUE(x.refused);
  EXPECT_TRUE(mentions(x.why, "no left is expected"));
  EXPECT_TRUE(mentions(right.log.take(), "no left is expected"));
  EXPECT_TRUE(mentions(left.log.take(), "no left is expected"));
}

TEST(Endpoint, RejectsPeersWithAnotherSecretOrNone) {
  host right{listening(secret("right"))};
  for (const auto* wrong : {"wrong", ""}) {
    host left{dialing_only(secret(wrong))};
    const auto x =
      soon(left.dial(right.it->reachable_at(), hello_of("left"), 300ms));
    EXPECT_FALSE(x.it);
    EXPECT_FALSE(x.refused);
    EXPECT_EQ(x.how, ending::dead);
    EXPECT_TRUE(mentions(x.why, *wrong ? "it may use another secret"
                                       : "it may require other credentials"))
      << x.why;
    const auto* said = *wrong ? "does not know the secret" : "has no secret";
    while (!mentions(right.log.take(), said)) // it was dialed more than once
      ;
  }
  EXPECT_EQ(right.guests.size(), 0u);
}

TEST(Endpoint, RetriesUntilThePeerListens) {
  std::optional<host> right{std::in_place};
  const auto where = right->it->reachable_at();
  right.reset();
  host left{dialing_only()};
  auto x = left.dial(where, hello_of("left"));
  auto how = listening();
  how.listen = where;
  right.emplace(how);
  EXPECT_TRUE(soon(std::move(x)).it);
}

TEST(Endpoint, ReportsTheEarlierHandshakeFailureWhenThePeerIsGone) {
  std::optional<host> right{std::in_place, listening(secret("right"))};
  host left{dialing_only(secret("wrong"))};
  auto x = left.dial(right->it->reachable_at(), hello_of("left"), 2s);
  right->log.take(); // the peer was there
  right.reset();
  const auto end = soon(std::move(x));
  EXPECT_TRUE(mentions(end.why, "Connection refused")) << end.why;
  EXPECT_TRUE(mentions(end.why, "it may use another secret")) << end.why;
}

TEST(Endpoint, HintsAtAnotherPortIfItsPortIsInUse) {
  host right;
  auto how = listening();
  how.listen = right.it->reachable_at();
  try {
    endpoint{how};
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_TRUE(mentions(e.what(), to_string(*how.listen))) << e.what();
    EXPECT_TRUE(mentions(e.what(), "use another port")) << e.what();
  }
}

TEST(Endpoint, FailsAtTheDeadlineWithTheLastReason) {
  std::optional<host> right{std::in_place};
  const auto where = right->it->reachable_at();
  right.reset();
  host left{dialing_only()};
  const auto x = soon(left.dial(where, hello_of("left"), 100ms));
  EXPECT_FALSE(x.it);
  EXPECT_EQ(x.how, ending::dead);
  EXPECT_TRUE(mentions(x.why, to_string(where))) << x.why;
  EXPECT_TRUE(mentions(x.why, "Connection refused")) << x.why;
}

TEST(Endpoint, TimesOutIfThePeerDoesNotRespond) {
  endpoint right{listening()}; // has no handler yet: dialers wait
  host left{dialing_only()};
  const auto x = soon(left.dial(right.reachable_at(), hello_of("left"), 100ms));
  EXPECT_FALSE(x.it);
  EXPECT_EQ(x.how, ending::silent);
}

TEST(Endpoint, LeavesLoopbackOnlyWithCredentials) {
  auto how = listening();
  how.listen = address{"0.0.0.0", 0};
  EXPECT_THROW(endpoint{how}, std::invalid_argument);
  how.credentials = secret("s");
  EXPECT_NO_THROW(endpoint{how});
  host left{dialing_only()};
  EXPECT_THROW(left.dial({"192.0.2.1", 80}, hello_of("left")),
               std::invalid_argument);
}

TEST(Endpoint, WarnsOnceThatASecretDoesNotEncrypt) {
  auto how = listening(secret("s"));
  how.listen = address{"0.0.0.0", 0};
  host x{how};
  ASSERT_EQ(x.log.size(), 1u);
  EXPECT_TRUE(mentions(x.log.take(), "warning: a secret authenticates"));
  EXPECT_EQ(host{listening(secret("s"))}.log.size(), 0u);
}

TEST(Endpoint, FindsAFreePortInItsRange) {
  host first;
  auto how = listening();
  how.listen = first.it->reachable_at();
  EXPECT_THROW(endpoint{how}, std::runtime_error);
  how.last_port =
    static_cast<std::uint16_t>(std::min(how.listen->port + 50, 65535));
  const host second{how};
  EXPECT_GT(second.it->reachable_at().port, how.listen->port);
  EXPECT_LE(second.it->reachable_at().port, how.last_port);
}

TEST(Endpoint, PublishesTheAdvertisedAddress) {
  auto how = listening();
  how.advertised = address{"node-1", 0};
  const host x{how};
  EXPECT_EQ(x.it->reachable_at().host, "node-1");
  EXPECT_NE(x.it->reachable_at().port, 0);
}

TEST(Endpoint, ResolvesHostNames) {
  auto how = listening();
  how.listen = address{"localhost", 0};
  host right{how}, left{dialing_only()};
  EXPECT_TRUE(soon(left.dial(right.it->reachable_at(), hello_of("left"))).it);
  const auto x =
    soon(left.dial({"no-such-host.invalid", 1}, hello_of("left"), 200ms));
  EXPECT_FALSE(x.it);
}

TEST(Endpoint, SupportsIpv6) {
  auto how = listening();
  how.listen = address{"::1", 0};
  std::optional<host> right;
  try {
    right.emplace(how);
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << "no IPv6 here: " << e.what();
  }
  host left{dialing_only()};
  EXPECT_TRUE(soon(left.dial(right->it->reachable_at(), hello_of("left"))).it);
}

TEST(Endpoint, EndsItsDialsWhenItCloses) {
  endpoint right{listening()};
  host left{dialing_only()};
  auto x = left.dial(right.reachable_at(), hello_of("left"));
  left.it.reset();
  EXPECT_TRUE(mentions(soon(std::move(x)).why, "the endpoint closes"));
}

TEST(Endpoint, ClosesItsConnectionsWithAReason) {
  connected_hosts x;
  mailbox<last_words> left, right;
  x.at_left->on_end([&](ending how, auto& why) { left.put({how, why}); });
  x.at_right->on_end([&](ending how, auto& why) { right.put({how, why}); });
  x.left.it.reset();
  EXPECT_EQ(left.take().why, "the endpoint closes");
  const auto there = right.take();
  EXPECT_EQ(there.how, ending::dead);
  EXPECT_EQ(there.why, "the endpoint closes");
}

TEST(Endpoint, RejectsContradictoryOptions) {
  auto how = listening();
  how.suspect = how.heartbeat;
  EXPECT_THROW(endpoint{how}, std::invalid_argument);
  how = listening();
  how.listen->port = 2000;
  how.last_port = 1999;
  EXPECT_THROW(endpoint{how}, std::invalid_argument);
}
