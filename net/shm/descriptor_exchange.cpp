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
constexpr int most_waiting = 16;
constexpr std::size_t most_passed = 3;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::string random_name() {
  std::array<std::byte, 16> bytes;
  fill_randomly(bytes);
  std::string name = "troupe-";
  for (const auto b : bytes)
    for (const auto digit : {b >> 4, b & std::byte{15}})
      name += "0123456789abcdef"[std::to_integer<int>(digit)];
  return name;
}

struct address_of {
  explicit address_of(const std::string& name) {
    if (name.empty() || name.size() >= sizeof it.sun_path)
      throw std::runtime_error("'" + printable(name)
                               + "' is not a valid socket name");
    it.sun_family = AF_UNIX;
    std::memcpy(it.sun_path + 1, name.data(), name.size()); // 0: abstract
    size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&it); }

  sockaddr_un it{};
  socklen_t size = 0;
};

bool is_same_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0
         && who.uid == ::geteuid();
}

/// A message with a token and space for descriptors, as `sendmsg` and `recvmsg`
/// take it.
struct letter {
  explicit letter(const meeting_token& token) : text{token} {
    it.msg_iov = &part;
    it.msg_iovlen = 1;
    it.msg_control = room.data();
    it.msg_controllen = room.size();
  }
  letter(const letter&) = delete;
  letter& operator=(const letter&) = delete;

  meeting_token text;
  iovec part{text.data(), text.size()};
  alignas(
    cmsghdr) std::array<char, CMSG_SPACE(most_passed * sizeof(int))> room{};
  msghdr it{};
};

void send(int socket, const meeting_token& token, const offered& mine) {
  const int fds[most_passed]{mine.memory, mine.bell, mine.arena};
  const auto bytes =
    (mine.arena < 0 ? most_passed - 1 : most_passed) * sizeof(int);
  letter message{token};
  message.it.msg_controllen = CMSG_SPACE(bytes);
  auto* head = CMSG_FIRSTHDR(&message.it);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(head), fds, bytes);
  if (::sendmsg(socket, &message.it, MSG_NOSIGNAL) < 0)
    fail("cannot send the descriptors");
}

/// All received descriptors. They are owned, so that surplus ones are closed
/// and cannot fill this process's table.
std::vector<descriptor> descriptors_in(msghdr& message) {
  std::vector<descriptor> fds;
  for (auto* x = CMSG_FIRSTHDR(&message); x; x = CMSG_NXTHDR(&message, x)) {
    if (x->cmsg_level != SOL_SOCKET || x->cmsg_type != SCM_RIGHTS)
      continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= x->cmsg_len;
         at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(x) + at, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

/// Receives the descriptors of the peer. None: nothing arrived, or the token is
/// wrong.
std::optional<passed> receive(int socket, const meeting_token& token) {
  letter came{meeting_token{}};
  const auto size = ::recvmsg(socket, &came.it, MSG_CMSG_CLOEXEC);
  if (size < 0)
    return std::nullopt; // nothing has arrived
  auto fds = descriptors_in(came.it);
  if (static_cast<std::size_t>(size) != token.size()
      || !is_same(came.text, token))
    return std::nullopt;
  if (fds.size() < 2 || fds.size() > most_passed
      || (came.it.msg_flags & MSG_CTRUNC) != 0)
    throw std::runtime_error("the peer did not send a segment, a notifier and "
                             "at most one arena");
  if (!is_bell(fds[1].get()))
    throw std::runtime_error(
      "the notifier of the peer is not a Unix stream socket");
  fds.resize(most_passed);
  return passed{std::move(fds[0]), std::move(fds[1]), std::move(fds[2])};
}

} // namespace

meeting_place::meeting_place()
  : name_{random_name()}, listener_{::socket(AF_UNIX, socket_kind, 0)} {
  fill_randomly(token_);
  const address_of where{name_};
  if (!listener_ || ::bind(listener_.get(), where.get(), where.size) != 0
      || ::listen(listener_.get(), most_waiting) != 0)
    fail("cannot listen on a Unix socket");
}

passed meeting_place::welcome(const offered& mine) const {
  // the peer is in the backlog, and its message has been sent
  for (int i = 0; i <= most_waiting; ++i) {
    const descriptor socket{::accept4(listener_.get(), nullptr, nullptr,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket)
      break;
    if (!is_same_user(socket.get()))
      continue;
    if (auto came = receive(socket.get(), token_)) {
      send(socket.get(), token_, mine);
      return std::move(*came);
    }
  }
  throw std::runtime_error("no peer with the token has connected");
}

visit::visit(const std::string& name, const meeting_token& token,
             const offered& mine)
  : token_{token}, socket_{::socket(AF_UNIX, socket_kind, 0)} {
  const address_of where{name};
  if (!socket_ || ::connect(socket_.get(), where.get(), where.size) != 0)
    fail("cannot connect to the peer's Unix socket");
  if (!is_same_user(socket_.get()))
    throw std::runtime_error("the peer's Unix socket belongs to another user");
  send(socket_.get(), token, mine);
}

passed visit::received() const {
  auto came = receive(socket_.get(), token_);
  if (!came)
    throw std::runtime_error("the peer sent no descriptors");
  return std::move(*came);
}

} // namespace troupe::net
