#include "troupe/net/shm/event_notifier.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/socket.h>

namespace troupe::net {

namespace {

/// Of a socket's option that is an int; -1 if it is no socket.
int option_of(int descriptor, int which) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, which, &value, &size) == 0 ? value
                                                                         : -1;
}

} // namespace

// A stream, as its listening end can be read for good once somebody shuts the
// ringing end down: its owner then sleeps no more, but misses no bell.
bell::bell() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("no bell for lanes: "
                             + std::string{std::strerror(errno)});
  ringing_ = net::descriptor{ends[0]};
  listening_end_ = net::descriptor{ends[1]};
}

void bell::silence() {
  if (!listening_)
    return;
  listening_ = false;
  std::array<std::byte, 512> rings; // more wait only if a peer floods it
  [[maybe_unused]] const auto n =
    ::recv(listening_end_.get(), rings.data(), rings.size(), MSG_DONTWAIT);
}

bool is_bell(int descriptor) {
  return option_of(descriptor, SO_DOMAIN) == AF_UNIX
         && option_of(descriptor, SO_TYPE) == SOCK_STREAM;
}

void ring(int descriptor) {
  // MSG_DONTWAIT is this call's own; O_NONBLOCK would be of all who hold it.
  // If there is no room the bell rings already.
  const std::byte once{1};
  [[maybe_unused]] const auto n =
    ::send(descriptor, &once, sizeof once, MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace troupe::net
