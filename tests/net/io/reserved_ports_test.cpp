#include "troupe/net/io/reserved_ports.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using troupe::net::reserved_ports;

/// Returns 0 if a new socket can listen on the port, else `errno`. `reuse` is
/// the value of SO_REUSEADDR.
int try_listen(std::uint16_t port, int reuse) {
  const auto fd = ::socket(AF_INET, SOCK_STREAM, 0);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_port = htons(port);
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool heard =
    ::bind(fd, reinterpret_cast<sockaddr*>(&bound), sizeof bound) == 0
    && ::listen(fd, 1) == 0;
  const auto why = heard ? 0 : errno;
  ::close(fd);
  return why;
}

TEST(ReservedPorts, AreAllDifferent) {
  const reserved_ports x{50};
  const std::set<std::uint16_t> all{x.numbers().begin(), x.numbers().end()};
  EXPECT_EQ(all.size(), 50u);
  EXPECT_FALSE(all.contains(0));
}

TEST(ReservedPorts, CanBeUsedOnlyExplicitly) {
  const reserved_ports x{1};
  const auto port = x.numbers().front();
  EXPECT_EQ(try_listen(port, 1), 0);
  EXPECT_EQ(try_listen(port, 0), EADDRINUSE);
}

} // namespace
