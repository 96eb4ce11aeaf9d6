#include "troupe/net/shm/descriptor_exchange.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/net/security/hmac.hpp"
#include "troupe/net/shm/event_notifier.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <vector>

namespace troupe::net {

namespace {

constexpr int socket_kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int max_backlog = 16;
constexpr std::size_t max_descriptors = 3;

[[noreturn]] void fail(const std::string& action) {
  throw std::runtime_error(action + ": " + std::strerror(errno));
}

std::string random_name() {
  std::array<std::byte, 16> bytes;
  random_bytes(bytes);
  std::string name = "troupe-";
  for (const auto b : bytes)
    for (const auto digit : {b >> 4, b & std::byte{15}})
      name += "0123456789abcdef"[std::to_integer<int>(digit)];
  return name;
}

struct unix_address {
  explicit unix_address(const std::string& name) {
    if (name.empty() || name.size() >= sizeof address_.sun_path)
      throw std::runtime_error("'" + printable(name)
                               + "' is not a valid socket name");
    address_.sun_family = AF_UNIX;
    // byte 0 remains zero, so the name is abstract
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
    size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  sockaddr_un address_{};
  socklen_t size = 0;
};

bool is_same_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0
         && credentials.uid == ::geteuid();
}

/// Argument of `sendmsg` and `recvmsg`: a message with a token, and space for
/// descriptors.
struct scm_message {
  explicit scm_message(const exchange_token& token) : token{token} {
    header.msg_iov = &buffer;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  scm_message(const scm_message&) = delete;
  scm_message& operator=(const scm_message&) = delete;

  exchange_token token;
  iovec buffer{token.data(), token.size()};
  alignas(cmsghdr)
    std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> control{};
  msghdr header{};
};

void send(int socket, const exchange_token& token, const descriptor_set& own) {
  const int fds[max_descriptors]{own.segment, own.notifier, own.arena};
  const auto bytes =
    (own.arena < 0 ? max_descriptors - 1 : max_descriptors) * sizeof(int);
  scm_message message{token};
  message.header.msg_controllen = CMSG_SPACE(bytes);
  auto* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(control), fds, bytes);
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) < 0)
    fail("cannot send the descriptors");
}

/// Returns all descriptors of a received message. The results own the
/// descriptors, so that surplus ones are closed and do not fill the descriptor
/// table of this process.
std::vector<descriptor> descriptors_in(msghdr& message) {
  std::vector<descriptor> fds;
  for (auto* control = CMSG_FIRSTHDR(&message); control;
       control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
      continue;
    for (std::size_t offset = 0;
         CMSG_LEN(offset + sizeof(int)) <= control->cmsg_len;
         offset += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(control) + offset, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

/// Receives the descriptors of the peer. None: nothing has arrived, or the
/// token is wrong.
std::optional<received_descriptors> receive_from(int socket,
                                                 const exchange_token& token) {
  scm_message message{exchange_token{}};
  const auto size = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  if (size < 0)
    return std::nullopt; // nothing has arrived
  auto fds = descriptors_in(message.header);
  if (static_cast<std::size_t>(size) != token.size()
      || !constant_time_equal(message.token, token))
    return std::nullopt;
  if (fds.size() < 2 || fds.size() > max_descriptors
      || (message.header.msg_flags & MSG_CTRUNC) != 0)
    throw std::runtime_error("the peer did not send a segment, a notifier and "
                             "at most one arena");
  if (!is_event_notifier(fds[1].get()))
    throw std::runtime_error(
      "the notifier of the peer is not a Unix stream socket");
  fds.resize(max_descriptors);
  return received_descriptors{std::move(fds[0]), std::move(fds[1]),
                              std::move(fds[2])};
}

} // namespace

descriptor_acceptor::descriptor_acceptor()
  : name_{random_name()}, listening_socket_{::socket(AF_UNIX, socket_kind, 0)} {
  random_bytes(token_);
  const unix_address socket_name{name_};
  if (!listening_socket_
      || ::bind(listening_socket_.get(), socket_name.get(), socket_name.size)
           != 0
      || ::listen(listening_socket_.get(), max_backlog) != 0)
    fail("cannot listen on a Unix socket");
}

received_descriptors
descriptor_acceptor::accept(const descriptor_set& own) const {
  // The peer has connected and sent its message, so no call has to wait. Before
  // the peer, at most `max_backlog` other processes may have connected.
  for (int i = 0; i <= max_backlog; ++i) {
    const descriptor socket{::accept4(listening_socket_.get(), nullptr, nullptr,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket)
      break;
    if (!is_same_user(socket.get()))
      continue;
    if (auto received = receive_from(socket.get(), token_)) {
      send(socket.get(), token_, own);
      return std::move(*received);
    }
  }
  throw std::runtime_error("no peer with the token has connected");
}

descriptor_connector::descriptor_connector(const std::string& name,
                                           const exchange_token& token,
                                           const descriptor_set& own)
  : token_{token}, socket_{::socket(AF_UNIX, socket_kind, 0)} {
  const unix_address socket_name{name};
  if (!socket_
      || ::connect(socket_.get(), socket_name.get(), socket_name.size) != 0)
    fail("cannot connect to the peer's Unix socket");
  if (!is_same_user(socket_.get()))
    throw std::runtime_error("the peer's Unix socket belongs to another user");
  send(socket_.get(), token, own);
}

received_descriptors descriptor_connector::receive() const {
  auto result = receive_from(socket_.get(), token_);
  if (!result)
    throw std::runtime_error("the peer sent no descriptors");
  return std::move(*result);
}

} // namespace troupe::net
