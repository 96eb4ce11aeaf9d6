#include "troupe/net/io/reserved_ports.hpp"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace troupe::net {

namespace {

[[noreturn]] void fail() {
  throw std::runtime_error(std::string{"cannot find a free port of "
                                       "127.0.0.1: "}
                           + std::strerror(errno));
}

/// Binds the socket to a free port and returns the port's number. The socket
/// does not listen.
std::uint16_t bind_to_any(int socket) {
  const int yes = 1;
  sockaddr_in bound{};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&bound);
  socklen_t size = sizeof bound;
  if (::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0
      || ::bind(socket, generic, size) != 0
      || ::getsockname(socket, generic, &size) != 0)
    fail();
  return ntohs(bound.sin_port);
}

void close_all(const std::vector<int>& sockets) {
  for (const auto one : sockets)
    ::close(one);
}

} // namespace

reserved_ports::reserved_ports(std::size_t count) {
  try {
    while (numbers_.size() < count) {
      const auto one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (one < 0)
        fail();
      sockets_.push_back(one);
      numbers_.push_back(bind_to_any(one));
    }
  } catch (...) {
    close_all(sockets_);
    throw;
  }
}

reserved_ports::~reserved_ports() {
  close_all(sockets_);
}

} // namespace troupe::net
