#include "troupe/net/shm/event_notifier.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/socket.h>

namespace troupe::net {

namespace {

/// @returns the value of an integer socket option; -1 if the descriptor is no
///          socket.
int option_of(int descriptor, int which) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, which, &value, &size) == 0 ? value
                                                                         : -1;
}

} // namespace

// A stream socket: after a peer shuts its end down, the waiting end stays
// readable. The owner's waits then return at once, but no event is missed.
bell::bell() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("cannot create a notifier for lanes: "
                             + std::string{std::strerror(errno)});
  ringing_ = net::descriptor{ends[0]};
  listening_end_ = net::descriptor{ends[1]};
}

void bell::silence() {
  if (!listening_)
    return;
  listening_ = false;
  std::array<std::byte, 512> rings; // more bytes wait only if a peer floods it
  [[maybe_unused]] const auto n =
    ::recv(listening_end_.get(), rings.data(), rings.size(), MSG_DONTWAIT);
}

bool is_bell(int descriptor) {
  return option_of(descriptor, SO_DOMAIN) == AF_UNIX
         && option_of(descriptor, SO_TYPE) == SOCK_STREAM;
}

void ring(int descriptor) {
  // MSG_DONTWAIT applies to this call; O_NONBLOCK would apply to all holders of
  // the socket. If the buffer is full, the event is set already.
  const std::byte once{1};
  [[maybe_unused]] const auto n =
    ::send(descriptor, &once, sizeof once, MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace troupe::net
