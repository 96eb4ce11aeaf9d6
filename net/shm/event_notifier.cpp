#include "troupe/net/shm/event_notifier.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/socket.h>

namespace troupe::net {

namespace {

/// Returns the value of an integer socket option. -1: the descriptor is not a
/// socket.
int option_of(int descriptor, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0
           ? value
           : -1;
}

} // namespace

// The sockets are stream sockets. If a peer shuts down the notifying end, no
// further notification can be sent. The waiting end of a stream then stays
// readable, so that all waits return immediately and no event is missed.
event_notifier::event_notifier() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("cannot create a notifier for lanes: "
                             + std::string{std::strerror(errno)});
  notify_end_ = net::descriptor{ends[0]};
  wait_end_ = net::descriptor{ends[1]};
}

void event_notifier::clear() {
  if (!armed_)
    return;
  armed_ = false;
  std::array<std::byte, 512> pending; // a correct peer sends less per wait
  [[maybe_unused]] const auto n =
    ::recv(wait_end_.get(), pending.data(), pending.size(), MSG_DONTWAIT);
}

bool is_event_notifier(int descriptor) {
  return option_of(descriptor, SO_DOMAIN) == AF_UNIX
         && option_of(descriptor, SO_TYPE) == SOCK_STREAM;
}

void notify(int descriptor) {
  // MSG_DONTWAIT applies to this call only. O_NONBLOCK is a flag that any
  // holder of the socket can change. A full buffer means that the event is set
  // already.
  const std::byte signal{1};
  [[maybe_unused]] const auto n =
    ::send(descriptor, &signal, sizeof signal, MSG_DONTWAIT | MSG_NOSIGNAL);
}

} // namespace troupe::net
