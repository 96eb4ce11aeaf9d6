#pragma once

#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/net/shm/shm_arena.hpp"
#include "troupe/net/shm/shm_segment.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <array>
#include <fcntl.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

// Passes arbitrary descriptors and bytes to the code under test, over a Unix
// socket.

namespace troupe::fuzz {

using net::event_notifier, net::descriptor, net::shm_segment;

inline constexpr std::uint32_t lanes = 2, slots = 2;

/// Descriptors that a simulated peer passes. Descriptor 0 is a valid segment,
/// and descriptor 1 a valid notifier.
struct descriptor_set {
  static constexpr std::size_t count = 10;

  descriptor_set() {
    const auto size = ::lseek(memory.descriptor(), 0, SEEK_END);
    if (::ftruncate(unsealed.get(), size) != 0
        || ::ftruncate(small.get(), 4096) != 0
        || ::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
      require(false, "memory files can be created");
    for (auto& b : memory.header().nonce)
      b = std::byte(++last_);
  }
  int descriptor_at(std::size_t i) const {
    const std::array descriptors{memory.descriptor(), notifier.descriptor(),
                                 large.descriptor(),  unsealed.get(),
                                 small.get(),         zeros.get(),
                                 slow.get(),          folder.get(),
                                 status.get(),        arena.descriptor()};
    static_assert(descriptors.size() == count);
    return descriptors[i];
  }

  shm_segment memory{lanes, slots}, large{lanes, slots + 1};
  event_notifier notifier;
  /// A valid message may pass this arena as the third descriptor, after a
  /// segment and a notifier.
  net::shm_arena arena{8192};
  descriptor unsealed{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  descriptor small{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  descriptor zeros{::open("/dev/zero", O_RDWR | O_CLOEXEC)};
  /// Invalid as a notifier, because a write to it may block.
  descriptor slow{::eventfd(0, EFD_CLOEXEC)};
  descriptor folder{::open("/proc/self", O_RDONLY | O_CLOEXEC)};
  descriptor status{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};

private:
  int last_ = 100;
};

inline descriptor_set& shared_descriptors() {
  static descriptor_set all;
  return all;
}

using token = std::array<std::byte, 32>;
inline constexpr std::size_t max_fds = 8;

struct socket_message {
  explicit socket_message(std::span<std::byte> text)
    : iov{text.data(), text.size()} {
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  iovec iov;
  alignas(cmsghdr) char control[CMSG_SPACE(max_fds * sizeof(int))]{};
  msghdr header{};
};

inline void pass(int socket, std::span<std::byte> text,
                 std::span<const int> fds) {
  socket_message message{text};
  message.header.msg_controllen =
    fds.empty() ? 0 : CMSG_SPACE(fds.size_bytes());
  if (auto* head = CMSG_FIRSTHDR(&message.header)) {
    *head = {CMSG_LEN(fds.size_bytes()), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  ::sendmsg(socket, &message.header, MSG_NOSIGNAL);
}

inline std::vector<descriptor> receive_descriptors(int socket) {
  token text{};
  socket_message x{text};
  std::vector<descriptor> received;
  if (::recvmsg(socket, &x.header, MSG_CMSG_CLOEXEC) < 0)
    return received;
  if (auto* head = CMSG_FIRSTHDR(&x.header))
    for (std::size_t at = 0; CMSG_LEN(at) < head->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + at, sizeof fd);
      received.emplace_back(fd);
    }
  return received;
}

/// Address of a Unix socket with an abstract name.
struct abstract_address {
  explicit abstract_address(const std::string& name) {
    address.sun_family = AF_UNIX;
    size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    std::memcpy(address.sun_path + 1, name.data(), name.size());
  }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  sockaddr_un address{};
  socklen_t size;
};

inline descriptor new_socket() {
  return descriptor{
    ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

} // namespace troupe::fuzz
