#include "troupe/net/io/reserved_ports.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using troupe::net::held_ports;

/// @returns 0 if a socket can listen on the port, else errno.
int listen_at(std::uint16_t port, int reuse) {
  const auto at = ::socket(AF_INET, SOCK_STREAM, 0);
  ::setsockopt(at, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool heard =
    ::bind(at, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0
    && ::listen(at, 1) == 0;
  const auto why = heard ? 0 : errno;
  ::close(at);
  return why;
}

TEST(ReservedPorts, AreAllDifferent) {
  const held_ports x{50};
  const std::set<std::uint16_t> all{x.numbers().begin(), x.numbers().end()};
  EXPECT_EQ(all.size(), 50u);
  EXPECT_FALSE(all.contains(0));
}

TEST(ReservedPorts, CanBeUsedOnlyExplicitly) {
  const held_ports x{1};
  const auto port = x.numbers().front();
  EXPECT_EQ(listen_at(port, 1), 0);
  EXPECT_EQ(listen_at(port, 0), EADDRINUSE);
}

} // namespace
