#include "troupe/net/io/socket_address.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

namespace troupe::net {

namespace {

using found_addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

std::pair<int, found_addresses> look_up(const address& x, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const auto fault = ::getaddrinfo(
    x.host.c_str(), std::to_string(x.port).c_str(), &hints, &first);
  return {fault, found_addresses{first, ::freeaddrinfo}};
}

descriptor make_socket(const place& x) {
  return descriptor{::socket(
    x.it.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP)};
}

} // namespace

std::uint16_t place::port() const {
  if (it.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(it).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(it).sin_port);
}

void place::set_port(std::uint16_t x) {
  if (it.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(it).sin6_port = htons(x);
  else
    reinterpret_cast<sockaddr_in&>(it).sin_port = htons(x);
}

bool place::is_loopback() const {
  constexpr std::uint32_t block = 127; // 127.0.0.0/8
  if (it.ss_family == AF_INET6) {
    const auto& x = reinterpret_cast<const sockaddr_in6&>(it).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&x)
           || (IN6_IS_ADDR_V4MAPPED(&x) && x.s6_addr[12] == block);
  }
  const auto& x = reinterpret_cast<const sockaddr_in&>(it).sin_addr;
  return it.ss_family == AF_INET && ntohl(x.s_addr) >> 24 == block;
}

std::string to_string(const place& x) {
  char host[NI_MAXHOST];
  if (::getnameinfo(x.get(), x.size, host, sizeof host, nullptr, 0,
                    NI_NUMERICHOST)
      != 0)
    return "somewhere";
  return to_string(address{host, x.port()});
}

bool is_numeric(const address& x) {
  return look_up(x, AI_NUMERICHOST).first == 0;
}

places resolve(const address& x) {
  const auto [fault, first] = look_up(x, 0);
  places all;
  if (fault != 0)
    all.problem = "'" + x.host + "' cannot be found: " + ::gai_strerror(fault);
  for (const auto* at = first.get(); at; at = at->ai_next)
    if (at->ai_family == AF_INET || at->ai_family == AF_INET6) {
      auto& to = all.found.emplace_back();
      std::memcpy(&to.it, at->ai_addr, at->ai_addrlen);
      to.size = at->ai_addrlen;
    }
  if (all.found.empty() && all.problem.empty())
    all.problem = "'" + x.host + "' has no address";
  return all;
}

descriptor listen_at(const place& x) {
  auto made = make_socket(x);
  const int on = 1; // allows a port in TIME_WAIT
  if (!made
      || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
      || ::bind(made.get(), x.get(), x.size) != 0
      || ::listen(made.get(), SOMAXCONN) != 0)
    return descriptor{};
  return made;
}

descriptor start_connecting(const place& x) {
  auto made = make_socket(x);
  if (made && ::connect(made.get(), x.get(), x.size) != 0
      && errno != EINPROGRESS && errno != EINTR)
    return descriptor{};
  return made;
}

int connected(int descriptor) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    return errno;
  if (error != 0)
    return error;
  place there;
  there.size = sizeof there.it;
  if (::getpeername(descriptor, there.get(), &there.size) != 0)
    return errno;
  const auto here = bound_to(descriptor);
  const auto itself =
    here.size == there.size && std::memcmp(&here.it, &there.it, here.size) == 0;
  return itself ? ECONNREFUSED : 0;
}

descriptor accept_from(int listening, place& from) {
  from.size = sizeof from.it;
  return descriptor{
    ::accept4(listening, from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC)};
}

place bound_to(int descriptor) {
  place x;
  x.size = sizeof x.it;
  if (::getsockname(descriptor, x.get(), &x.size) != 0)
    x.size = 0;
  return x;
}

} // namespace troupe::net
