#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/io/cut_connections.hpp"

#include <gtest/gtest.h>

#include <array>
#include <poll.h>
#include <unistd.h>

namespace troupe::net {
namespace {

/// Both ends of a connection over the loopback interface.
struct connection_ends {
  descriptor listening = listen_on(resolve({"127.0.0.1", 0}).found.front());
  descriptor dialed = connect_async(local_address(listening.get()));
  descriptor accepted = [this] {
    pollfd watched{listening.get(), POLLIN, 0};
    ::poll(&watched, 1, 60'000);
    socket_address peer;
    return accept_from(listening.get(), peer);
  }();
};

/// Writes a byte at one end. @returns the bytes that the other end reads: 0 at
/// the end of the stream, -1 for an error.
ssize_t pass_byte(const descriptor& from, const descriptor& to) {
  char byte = 'x';
  const auto written = ::send(from.get(), &byte, 1, MSG_NOSIGNAL);
  pollfd watched{to.get(), POLLIN, 0};
  ::poll(&watched, 1, 60'000);
  const auto got = ::read(to.get(), &byte, 1);
  return written == 1 ? got : std::min<ssize_t>(got, 0);
}

TEST(CutConnections, EndsTheChosenOnesForBothSides) {
  const connection_ends cut, kept;
  const auto chosen = local_address(cut.listening.get()).port();
  const auto count =
    cut_connections([&](const socket_address&, const socket_address& peer) {
      return peer.port() == chosen;
    });
  EXPECT_EQ(count, 1u);
  EXPECT_LE(pass_byte(cut.dialed, cut.accepted), 0);
  EXPECT_LE(pass_byte(cut.accepted, cut.dialed), 0);
  EXPECT_EQ(pass_byte(kept.dialed, kept.accepted), 1);
  EXPECT_EQ(pass_byte(kept.accepted, kept.dialed), 1);
}

TEST(CutConnections, SeesTheOwnAddressOfAnAcceptedConnection) {
  const connection_ends ends;
  const auto port = local_address(ends.listening.get()).port();
  EXPECT_EQ(
    cut_connections([&](const socket_address& own, const socket_address& peer) {
      return own.port() == port && peer.port() != port;
    }),
    1u);
  EXPECT_LE(pass_byte(ends.dialed, ends.accepted), 0);
}

} // namespace
} // namespace troupe::net
