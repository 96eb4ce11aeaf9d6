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

// Passes arbitrary descriptors and text to another process over a socket.

namespace troupe::fuzz {

using net::bell, net::descriptor, net::shm_segment;

inline constexpr std::uint32_t slots = 2;

/// Descriptors that a peer may pass, created once. The first two are valid.
struct belongings {
  static constexpr std::size_t count = 10;

  belongings() {
    const auto size = ::lseek(memory.descriptor(), 0, SEEK_END);
    if (::ftruncate(unsealed.get(), size) != 0
        || ::ftruncate(small.get(), 4096) != 0
        || ::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
      require(false, "memory files can be created");
    for (auto& b : memory.header().nonce)
      b = std::byte(++last_);
  }
  int at(std::size_t i) const {
    const std::array all{memory.descriptor(), chime.descriptor(),
                         large.descriptor(),  unsealed.get(),
                         small.get(),         zeros.get(),
                         slow.get(),          folder.get(),
                         status.get(),        arena.descriptor()};
    static_assert(all.size() == count);
    return all[i];
  }

  shm_segment memory{slots}, large{slots + 1};
  bell chime;
  net::shm_arena arena{8192}; ///< Valid as the third descriptor.
  descriptor unsealed{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  descriptor small{::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  descriptor zeros{::open("/dev/zero", O_RDWR | O_CLOEXEC)};
  descriptor slow{::eventfd(0, EFD_CLOEXEC)}; ///< Not a notifier: it blocks.
  descriptor folder{::open("/proc/self", O_RDONLY | O_CLOEXEC)};
  descriptor status{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};

private:
  int last_ = 100;
};

inline belongings& mine() {
  static belongings all;
  return all;
}

using token = std::array<std::byte, 32>;
inline constexpr std::size_t most_fds = 8;

struct post {
  explicit post(std::span<std::byte> text) : part{text.data(), text.size()} {
    it.msg_iov = &part;
    it.msg_iovlen = 1;
    it.msg_control = room;
    it.msg_controllen = sizeof room;
  }
  iovec part;
  alignas(cmsghdr) char room[CMSG_SPACE(most_fds * sizeof(int))]{};
  msghdr it{};
};

inline void pass(int to, std::span<std::byte> text, std::span<const int> fds) {
  post x{text};
  x.it.msg_controllen = fds.empty() ? 0 : CMSG_SPACE(fds.size_bytes());
  if (auto* head = CMSG_FIRSTHDR(&x.it)) {
    *head = {CMSG_LEN(fds.size_bytes()), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  ::sendmsg(to, &x.it, MSG_NOSIGNAL);
}

inline std::vector<descriptor> passed_to(int socket) {
  token text{};
  post x{text};
  std::vector<descriptor> all;
  if (::recvmsg(socket, &x.it, MSG_CMSG_CLOEXEC) < 0)
    return all;
  if (auto* head = CMSG_FIRSTHDR(&x.it))
    for (std::size_t at = 0; CMSG_LEN(at) < head->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + at, sizeof fd);
      all.emplace_back(fd);
    }
  return all;
}

/// Address of an abstract socket.
struct place_named {
  explicit place_named(const std::string& name) {
    it.sun_family = AF_UNIX;
    size = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    std::memcpy(it.sun_path + 1, name.data(), name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&it); }
  sockaddr_un it{};
  socklen_t size;
};

inline descriptor new_socket() {
  return descriptor{
    ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

} // namespace troupe::fuzz
