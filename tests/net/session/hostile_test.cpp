#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/codec/frames.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/session/endpoints.hpp"
#include "troupe/tests/net/session/raw_sockets.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <list>
#include <random>
#include <sys/resource.h>

// Unauthenticated and faulty peers of an endpoint, over real sockets.

using namespace troupe::net;
using namespace troupe::net::testing;
using state = handshake::state;

namespace {

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

void waits_for(mailbox<std::string>& log, const std::string& what) {
  while (!mentions(log.take(), what))
    ;
}

void a_member_joins(host& on, const std::string& password = {}) {
  host member{dialing_only(secret(password))};
  const auto x = soon(member.dial(on.it->reachable_at(), hello_of("member")));
  EXPECT_TRUE(x.it) << x.why;
  EXPECT_EQ(on.guests.take().who.name, "member");
}

/// The process's limit of descriptors; restored at the end.
class descriptor_limit {
public:
  descriptor_limit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~descriptor_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  std::size_t now() const { return before_.rlim_cur; }
  void lower(std::size_t to) const {
    auto x = before_;
    x.rlim_cur = to;
    if (::setrlimit(RLIMIT_NOFILE, &x) != 0)
      throw std::runtime_error{"the limit cannot be set"};
  }

private:
  rlimit before_{};
};

} // namespace

TEST(HostilePeer, IsClosedAfterRandomBytes) {
  host x;
  std::mt19937 random{5};
  for (int i = 0; i < 50; ++i) {
    stranger y{x.it->reachable_at()};
    std::vector<std::byte> bytes(1 + random() % 200);
    for (auto& b : bytes)
      b = std::byte(random());
    y.say(bytes);
    EXPECT_TRUE(y.is_closed());
  }
  waits_for(x.log, "it does not speak this protocol");
  a_member_joins(x);
}

/// The decision on the hello falls after the peer has reset the connection.
TEST(HostilePeer, IsAbandonedIfItDisconnectsBeforeTheResponse) {
  mailbox<std::string> seen;
  mailbox<int> asked, left;
  endpoint x{listening()};
  x.on_dialed(
    [&](const hello&) {
      asked.put(0);
      left.take();
      return verdict{};
    },
    [&](const hello&, arrived&&) { seen.put("taken"); },
    [&](const hello& who) { seen.put(who.name + " is abandoned"); });
  std::string what = "taken"; // a reset may arrive late
  for (int i = 0; i < 100 && what == "taken"; ++i) {
    handshake says{
      handshake::side::dialer, {}, random_nonce(), hello_of("client")};
    {
      stranger y{x.reachable_at()};
      y.say(says.unsent());
      says.sent(says.unsent().size());
      says.take(y.hear(says.wants()));
      y.say(says.unsent());
      asked.take();
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(y.descriptor(), SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof at_once);
    }
    left.put(0);
    what = seen.take();
  }
  EXPECT_EQ(what, "client is abandoned");
}

TEST(HostilePeer, GetsNoResponseWithAWrongSecret) {
  host x{listening(secret("right"))};
  stranger y{x.it->reachable_at()};
  EXPECT_EQ(y.meet(hello_of("thief"), "wrong"), state::speaking);
  EXPECT_TRUE(y.is_closed());
  waits_for(x.log, "it does not know the secret");
}

TEST(HostilePeer, GetsNoResponseToAReplayedHandshake) {
  host x{listening(secret("right"))};
  stranger member{x.it->reachable_at()};
  handshake real{handshake::side::dialer, "right", random_nonce(),
                 hello_of("member")};
  std::vector<std::byte> said;
  const auto say = [&](stranger& y, handshake& how) {
    const auto all = how.unsent();
    said.insert(said.end(), all.begin(), all.end());
    y.say(all);
    how.sent(all.size());
  };
  say(member, real);
  real.take(member.hear(40));
  say(member, real);
  EXPECT_EQ(member.hear(32).size(), 32u); // it was accepted
  EXPECT_EQ(x.guests.take().who.name, "member");

  stranger thief{x.it->reachable_at()};
  thief.say(said);
  EXPECT_EQ(thief.hear(1000).size(), 40u); // a fresh nonce, and no more
  waits_for(x.log, "it does not know the secret");
  EXPECT_EQ(x.guests.size(), 0u);
}

TEST(HostilePeer, IsClosedWhenItsHandshakeTimesOut) {
  auto how = listening();
  how.patience = 50ms;
  host x{how};
  stranger mute{x.it->reachable_at()};
  stranger slow{x.it->reachable_at()};
  EXPECT_TRUE(slow.say(bytes_of("TRP")));
  EXPECT_TRUE(mute.is_closed());
  EXPECT_TRUE(slow.is_closed());
  waits_for(x.log, "took too long");
}

TEST(HostilePeer, IsEvictedByNewConnections) {
  auto how = listening();
  how.half_open = 4;
  how.patience = long_enough;
  host x{how};
  std::list<stranger> all;
  for (int i = 0; i < 5; ++i)
    all.emplace_back(x.it->reachable_at());
  EXPECT_TRUE(all.front().is_closed());
  a_member_joins(x);
}

TEST(HostilePeer, CannotKeepMembersOutByThousandsOfConnections) {
  auto how = listening(secret("right"));
  how.patience = long_enough;
  host x{how};
  const auto limit = descriptor_limit{}.now();
  const auto count = std::min<std::size_t>(10'000, limit - limit / 4 - 500);
  std::list<stranger> all;
  for (std::size_t i = 0; i < count; ++i)
    all.emplace_back(x.it->reachable_at());
  const auto begin = std::chrono::steady_clock::now();
  a_member_joins(x, "right");
  const std::chrono::duration<double, std::milli> took =
    std::chrono::steady_clock::now() - begin;
  RecordProperty("half_open", static_cast<int>(count));
  RecordProperty("join_ms", std::to_string(took.count()));
}

TEST(HostilePeer, CannotExhaustDescriptors) {
  host x;
  std::list<stranger> all(40);
  stranger member;
  {
    const descriptor_limit limit;
    limit.lower(static_cast<std::size_t>(member.descriptor()) + 8);
    for (auto& y : all)
      y.connect(x.it->reachable_at());
    member.connect(x.it->reachable_at());
    EXPECT_EQ(member.meet(hello_of("member")), state::taken);
  }
  EXPECT_EQ(x.guests.take().who.name, "member");
  EXPECT_TRUE(all.front().is_closed());
}

// -- faulty peers that have authenticated -------------------------------------

namespace {

/// An authenticated raw socket, and the endpoint's end of its connection.
struct misbehaving {
  explicit misbehaving(endpoint_options how = listening()) : on{how} {
    EXPECT_EQ(member.meet(hello_of("member")), state::taken);
    it = std::get<std::shared_ptr<connection>>(on.guests.take().it);
    it->on_end([this](ending how, auto& why) { ends.put({how, why}); });
  }
  void say(const frame& x) { member.say(to_bytes(x)); }

  mailbox<last_words> ends;
  host on;
  stranger member{on.it->reachable_at()};
  std::shared_ptr<connection> it;
};

} // namespace

TEST(FaultyPeer, TimesOutWhenItSendsNothing) {
  auto how = listening();
  how.heartbeat = 5ms;
  how.suspect = 50ms;
  misbehaving x{how};
  const auto last = x.ends.take();
  EXPECT_EQ(last.how, ending::silent);
  EXPECT_TRUE(mentions(last.why, "no data was received from it for"));
  EXPECT_TRUE(mentions(x.on.log.take(), "'member' has ended: no data"));
}

TEST(FaultyPeer, IsClosedWhenItDisconnects) {
  misbehaving x;
  x.member = stranger{};
  EXPECT_EQ(x.ends.take().how, ending::dead);
}

TEST(FaultyPeer, IsClosedWithTheReasonWhenItDisconnectsWithinAFrame) {
  misbehaving x;
  const auto bytes = to_bytes(some_frame(9));
  x.member.say(std::span{bytes}.first(20));
  x.member = stranger{};
  const auto last = x.ends.take();
  EXPECT_EQ(last.how, ending::dead);
  EXPECT_TRUE(mentions(last.why, "ends within a header")) << last.why;
}

TEST(FaultyPeer, ViolatesTheProtocolWhenItSendsNoFrames) {
  misbehaving x;
  x.member.say(bytes_of("hello, are you there?"));
  const auto last = x.ends.take();
  EXPECT_EQ(last.how, ending::broken);
  EXPECT_EQ(last.why, "byte 0: not the start of a frame");
  while (!x.member.hear(100).empty()) // heartbeats
    ;
}

TEST(FaultyPeer, ViolatesTheProtocolWhenItExceedsItsCredits) {
  misbehaving x;
  const auto link = x.it->open(1);
  const auto at = std::make_shared<ear>();
  link->listen(at);
  for (std::size_t i = 0; i <= credits_of(priority::control); ++i)
    x.say({.payload = {}, .channel = 1});
  EXPECT_EQ(x.ends.take().how, ending::broken);
  EXPECT_EQ(at->ends.take().how, ending::broken);
  EXPECT_EQ(at->frames.size(), credits_of(priority::control));
}

TEST(FaultyPeer, StopsThePostingSideWhenItStopsReading) {
  misbehaving x;
  const auto link = x.it->open(1);
  std::size_t taken = 0, bytes = 0;
  for (const std::size_t size : {100'000, 1})
    while (link->post({.payload = std::vector<std::byte>(size)}))
      ++taken, bytes += size;
  EXPECT_LE(taken, credits_of(priority::control));
  EXPECT_LE(bytes, std::size_t{32} << 20); // socket buffers hold some of it
  EXPECT_FALSE(link->post({}));
  x.it->close("it does not read");
}

TEST(FaultyPeer, IsNotAwaitedBeyondTheTimeoutWhenItSendsNoGoaway) {
  auto how = listening();
  how.heartbeat = 5ms;
  how.patience = 500ms * troupe::test::slowness;
  misbehaving x{how};
  x.it->close("enough");
  const auto last = x.ends.take();
  EXPECT_EQ(last.how, ending::dead);
  EXPECT_EQ(last.why, "enough");
}

TEST(FaultyPeer, CannotKeepAnEndpointFromClosing) {
  auto how = listening();
  how.patience = 500ms * troupe::test::slowness;
  misbehaving x{how};
  x.on.it.reset();
  EXPECT_EQ(x.ends.take().how, ending::dead);
}
