#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/net/session/multiplexer.hpp"
#include "troupe/tests/net/codec/frames.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/session/endpoints.hpp"
#include "troupe/tests/net/session/raw_sockets.hpp"
#include "troupe/tests/support/mentions.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <list>
#include <random>
#include <sys/resource.h>

// Tests of an endpoint with peers that do not authenticate or violate the
// protocol, over real sockets.

using troupe::test::mentions;
using namespace troupe::net;
using namespace troupe::net::testing;
using state = handshake::state;

namespace {

void wait_for_line(mailbox<std::string>& log, const std::string& what) {
  while (!mentions(log.take(), what))
    ;
}

void expect_member_joins(test_endpoint& server,
                         const std::string& password = {}) {
  test_endpoint member{dialing_options(secret_credentials(password))};
  const auto result = await_result(
    member.dial(server.net_endpoint->advertised_address(), hello_of("member")));
  EXPECT_TRUE(result.connection) << result.reason;
  EXPECT_EQ(server.accepted.take().peer.name, "member");
}

/// Changes the process's limit of descriptors. The destructor restores the
/// limit.
class descriptor_limit {
public:
  descriptor_limit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~descriptor_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void lower(std::size_t limit) const { set(limit); }
  /// Raises the limit to `wanted`, or as far as the hard limit permits.
  /// @returns the limit that holds now.
  std::size_t raise(std::size_t wanted) const {
    const auto limit = std::min<std::size_t>(wanted, before_.rlim_max);
    if (limit <= before_.rlim_cur)
      return before_.rlim_cur;
    set(limit);
    return limit;
  }

private:
  void set(std::size_t limit) const {
    auto x = before_;
    x.rlim_cur = limit;
    if (::setrlimit(RLIMIT_NOFILE, &x) != 0)
      throw std::runtime_error{"the limit cannot be set"};
  }

  rlimit before_{};
};

} // namespace

TEST(HostilePeer, IsClosedAfterRandomBytes) {
  test_endpoint server;
  std::mt19937 random{5};
  for (int i = 0; i < 50; ++i) {
    raw_socket client{server.net_endpoint->advertised_address()};
    std::vector<std::byte> bytes(1 + random() % 200);
    for (auto& b : bytes)
      b = std::byte(random());
    client.send(bytes);
    EXPECT_TRUE(client.is_closed());
  }
  wait_for_line(server.log, "it uses another protocol");
  expect_member_joins(server);
}

TEST(HostilePeer, IsToldOnlyThatItsSecretIsWrong) {
  test_endpoint server{listening_options(secret_credentials("right"))};
  raw_socket client{server.net_endpoint->advertised_address()};
  EXPECT_EQ(client.run_handshake(hello_of("thief"), "wrong"),
            state::wrong_secret);
  EXPECT_TRUE(client.is_closed());
  wait_for_line(server.log, "it does not know the secret");
}

TEST(HostilePeer, GetsOnlyTheVerdictOnAReplayedHandshake) {
  test_endpoint server{listening_options(secret_credentials("right"))};
  raw_socket member{server.net_endpoint->advertised_address()};
  handshake real{handshake::side::dialer, "right", random_nonce(),
                 hello_of("member")};
  std::vector<std::byte> sent_bytes;
  const auto say = [&](raw_socket& client, handshake& how) {
    const auto all = how.unsent();
    sent_bytes.insert(sent_bytes.end(), all.begin(), all.end());
    client.send(all);
    how.sent(all.size());
  };
  say(member, real);
  real.receive(member.receive(40));
  say(member, real);
  // the server has accepted the member
  EXPECT_EQ(member.receive(32).size(), 32u);
  EXPECT_EQ(server.accepted.take().peer.name, "member");

  raw_socket thief{server.net_endpoint->advertised_address()};
  thief.send(sent_bytes);
  // the server sends only a greeting, with a new nonce, and the verdict
  const auto answer = thief.receive(1000);
  ASSERT_EQ(answer.size(), 72u);
  EXPECT_EQ(text_of(std::span{answer}.subspan(40)), wrong_secret_verdict);
  wait_for_line(server.log, "it does not know the secret");
  EXPECT_EQ(server.accepted.size(), 0u);
}

TEST(HostilePeer, IsClosedWhenItsHandshakeTimesOut) {
  auto options = listening_options();
  options.connection.handshake_timeout = 50ms;
  test_endpoint server{options};
  raw_socket mute{server.net_endpoint->advertised_address()};
  raw_socket slow{server.net_endpoint->advertised_address()};
  EXPECT_TRUE(slow.send(bytes_of("TRP")));
  EXPECT_TRUE(mute.is_closed());
  EXPECT_TRUE(slow.is_closed());
  wait_for_line(server.log, "took too long");
}

TEST(HostilePeer, IsEvictedByNewConnections) {
  auto options = listening_options();
  options.max_handshakes = 4;
  options.connection.handshake_timeout = max_wait;
  test_endpoint server{options};
  std::list<raw_socket> all;
  for (int i = 0; i < 5; ++i)
    all.emplace_back(server.net_endpoint->advertised_address());
  EXPECT_TRUE(all.front().is_closed());
  expect_member_joins(server);
}

TEST(HostilePeer, CannotKeepMembersOutByThousandsOfConnections) {
  auto options = listening_options(secret_credentials("right"));
  options.connection.handshake_timeout = max_wait;
  test_endpoint server{options};
  constexpr std::size_t wanted = 10'000;
  // for the server's handshakes, for the member, and for the process itself
  constexpr std::size_t other_descriptors = 600;
  const descriptor_limit descriptors;
  const auto limit = descriptors.raise(wanted + other_descriptors);
  ASSERT_GT(limit, other_descriptors) << "the hard limit of descriptors";
  const auto count = std::min(wanted, limit - other_descriptors);
  if (count < wanted)
    std::cout << "only " << count << " connections instead of " << wanted
              << ", because the hard limit of descriptors is " << limit
              << " (ulimit -Hn)\n";
  std::list<raw_socket> all;
  for (std::size_t i = 0; i < count; ++i)
    all.emplace_back(server.net_endpoint->advertised_address());
  // the fastest of three, because the machine may be loaded
  auto fastest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    expect_member_joins(server, "right");
    fastest = std::min(fastest, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(fastest, 1s * troupe::test::slowness);
  const std::chrono::duration<double, std::milli> join_time{fastest};
  std::cout << "a member joined within " << join_time.count() << " ms beside "
            << count << " connections\n";
  RecordProperty("connections", static_cast<int>(count));
  RecordProperty("join_ms", std::to_string(join_time.count()));
}

TEST(HostilePeer, CannotExhaustDescriptors) {
  if (troupe::test::has_address_sanitizer)
    GTEST_SKIP() << "the check vptr of UBSan needs free descriptors";
  test_endpoint server;
  std::list<raw_socket> all(40);
  raw_socket member;
  {
    const descriptor_limit limit;
    limit.lower(static_cast<std::size_t>(member.descriptor()) + 8);
    for (auto& client : all)
      client.connect(server.net_endpoint->advertised_address());
    member.connect(server.net_endpoint->advertised_address());
    EXPECT_EQ(member.run_handshake(hello_of("member")), state::accepted);
  }
  EXPECT_EQ(server.accepted.take().peer.name, "member");
  EXPECT_TRUE(all.front().is_closed());
}

// -- faulty peers that have authenticated -------------------------------------

namespace {

/// An authenticated peer that sends arbitrary bytes (`member`), and the
/// endpoint's end of the connection to it.
struct misbehaving_peer {
  explicit misbehaving_peer(endpoint_options options = listening_options())
    : server{options} {
    EXPECT_EQ(member.run_handshake(hello_of("member")), state::accepted);
    server_connection =
      std::get<std::shared_ptr<connection>>(server.accepted.take().connection);
    server_connection->on_closed([this](close_reason how, auto& why) {
      closings.put({how, why});
    });
  }
  void send(const frame& x) { member.send(to_bytes(x)); }

  mailbox<close_event> closings;
  test_endpoint server;
  raw_socket member{server.net_endpoint->advertised_address()};
  std::shared_ptr<connection> server_connection;
};

} // namespace

TEST(FaultyPeer, TimesOutWhenItSendsNothing) {
  auto options = listening_options();
  options.connection.heartbeat_interval = 5ms;
  options.connection.heartbeat_timeout = 50ms;
  misbehaving_peer peer{options};
  const auto last = peer.closings.take();
  EXPECT_EQ(last.cause, close_reason::timed_out);
  EXPECT_TRUE(mentions(last.reason, "no data was received from it for"));
  EXPECT_TRUE(mentions(peer.server.log.take(), "'member' has ended: no data"));
}

TEST(FaultyPeer, IsClosedWhenItDisconnects) {
  misbehaving_peer peer;
  peer.member = raw_socket{};
  EXPECT_EQ(peer.closings.take().cause, close_reason::closed);
}

TEST(FaultyPeer, IsClosedWithTheReasonWhenItDisconnectsWithinAFrame) {
  misbehaving_peer peer;
  const auto bytes = to_bytes(some_frame(9));
  peer.member.send(std::span{bytes}.first(20));
  peer.member = raw_socket{};
  const auto last = peer.closings.take();
  EXPECT_EQ(last.cause, close_reason::closed);
  EXPECT_TRUE(mentions(last.reason, "ends within a header")) << last.reason;
}

TEST(FaultyPeer, ViolatesTheProtocolWhenItSendsNoFrames) {
  misbehaving_peer peer;
  peer.member.send(bytes_of("hello, are you there?"));
  const auto last = peer.closings.take();
  EXPECT_EQ(last.cause, close_reason::protocol_error);
  EXPECT_EQ(last.reason, "byte 0: not the start of a frame");
  // skips heartbeats until the connection ends
  while (!peer.member.receive(100).empty())
    ;
}

TEST(FaultyPeer, ViolatesTheProtocolWhenItExceedsItsCredits) {
  misbehaving_peer peer;
  const auto channel = peer.server_connection->open(1);
  const auto listener = std::make_shared<recording_listener>();
  channel->set_listener(listener);
  for (std::size_t i = 0; i <= credits_of(priority::control); ++i)
    peer.send({.payload = {}, .channel = 1});
  EXPECT_EQ(peer.closings.take().cause, close_reason::protocol_error);
  EXPECT_EQ(listener->closings.take().cause, close_reason::protocol_error);
  EXPECT_EQ(listener->frames.size(), credits_of(priority::control));
}

TEST(FaultyPeer, StopsThePostingSideWhenItStopsReading) {
  misbehaving_peer peer;
  const auto channel = peer.server_connection->open(1);
  std::size_t accepted_frames = 0, bytes = 0;
  for (const std::size_t size : {100'000, 1})
    while (channel->post({.payload = std::vector<std::byte>(size)}))
      ++accepted_frames, bytes += size;
  EXPECT_LE(accepted_frames, credits_of(priority::control));
  // socket buffers hold some of the bytes
  EXPECT_LE(bytes, std::size_t{32} << 20);
  EXPECT_FALSE(channel->post({}));
  peer.server_connection->close("it does not read");
}

TEST(FaultyPeer, IsNotAwaitedBeyondTheTimeoutWhenItSendsNoGoaway) {
  auto options = listening_options();
  options.connection.heartbeat_interval = 5ms;
  options.connection.handshake_timeout = 500ms * troupe::test::slowness;
  misbehaving_peer peer{options};
  peer.server_connection->close("enough");
  const auto last = peer.closings.take();
  EXPECT_EQ(last.cause, close_reason::closed);
  EXPECT_EQ(last.reason, "enough");
}

TEST(FaultyPeer, CannotKeepAnEndpointFromClosing) {
  auto options = listening_options();
  options.connection.handshake_timeout = 500ms * troupe::test::slowness;
  misbehaving_peer peer{options};
  peer.server.net_endpoint.reset();
  EXPECT_EQ(peer.closings.take().cause, close_reason::closed);
}
