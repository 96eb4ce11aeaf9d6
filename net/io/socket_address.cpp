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

using addrinfo_list = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

std::pair<int, addrinfo_list> look_up(const address& name, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const auto fault = ::getaddrinfo(
    name.host.c_str(), std::to_string(name.port).c_str(), &hints, &first);
  return {fault, addrinfo_list{first, ::freeaddrinfo}};
}

descriptor make_socket(const socket_address& target) {
  return descriptor{::socket(target.storage.ss_family,
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                             IPPROTO_TCP)};
}

} // namespace

std::uint16_t socket_address::port() const {
  if (storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

void socket_address::set_port(std::uint16_t x) {
  if (storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(x);
  else
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(x);
}

bool socket_address::is_loopback() const {
  constexpr std::uint32_t block = 127; // 127.0.0.0/8
  if (storage.ss_family == AF_INET6) {
    const auto& x = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&x)
           || (IN6_IS_ADDR_V4MAPPED(&x) && x.s6_addr[12] == block);
  }
  const auto& x = reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  return storage.ss_family == AF_INET && ntohl(x.s_addr) >> 24 == block;
}

std::string to_string(const socket_address& target) {
  char host[NI_MAXHOST];
  if (::getnameinfo(target.get(), target.size, host, sizeof host, nullptr, 0,
                    NI_NUMERICHOST)
      != 0)
    return "somewhere";
  return to_string(address{host, target.port()});
}

bool is_numeric(const address& x) {
  return look_up(x, AI_NUMERICHOST).first == 0;
}

resolved_addresses resolve(const address& name) {
  const auto [fault, first] = look_up(name, 0);
  resolved_addresses result;
  if (fault != 0)
    result.problem =
      "'" + name.host + "' cannot be found: " + ::gai_strerror(fault);
  for (const auto* entry = first.get(); entry; entry = entry->ai_next)
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) {
      auto& added = result.found.emplace_back();
      std::memcpy(&added.storage, entry->ai_addr, entry->ai_addrlen);
      added.size = entry->ai_addrlen;
    }
  if (result.found.empty() && result.problem.empty())
    result.problem = "'" + name.host + "' has no address";
  return result;
}

descriptor listen_on(const socket_address& target) {
  auto made = make_socket(target);
  const int on = 1; // a port may still be in TIME_WAIT
  if (!made
      || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
      || ::bind(made.get(), target.get(), target.size) != 0
      || ::listen(made.get(), SOMAXCONN) != 0)
    return descriptor{};
  return made;
}

descriptor connect_async(const socket_address& target) {
  auto made = make_socket(target);
  if (made && ::connect(made.get(), target.get(), target.size) != 0
      && errno != EINPROGRESS && errno != EINTR)
    return descriptor{};
  return made;
}

int connect_result(int descriptor) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    return errno;
  if (error != 0)
    return error;
  socket_address remote;
  remote.size = sizeof remote.storage;
  if (::getpeername(descriptor, remote.get(), &remote.size) != 0)
    return errno;
  const auto local = local_address(descriptor);
  const auto itself =
    local.size == remote.size
    && std::memcmp(&local.storage, &remote.storage, local.size) == 0;
  return itself ? ECONNREFUSED : 0;
}

descriptor accept_from(int listening, socket_address& peer) {
  peer.size = sizeof peer.storage;
  return descriptor{
    ::accept4(listening, peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC)};
}

socket_address local_address(int descriptor) {
  socket_address bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(descriptor, bound.get(), &bound.size) != 0)
    bound.size = 0;
  return bound;
}

} // namespace troupe::net
