#pragma once

#include "troupe/net/descriptor.hpp"
#include "troupe/net/stream.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace troupe::net::testing {

/// A stream over any socket, as plain as can be.
class socket_stream final : public stream {
public:
  explicit socket_stream(int fd) : fd_{fd} {}

  moved read_some(std::span<std::byte> to) override {
    return after(::recv(fd_.get(), to.data(), to.size(), MSG_DONTWAIT),
                 status::wants_read);
  }
  moved write_some(std::span<const std::byte> first,
                   std::span<const std::byte> second) override {
    iovec parts[]{{const_cast<std::byte*>(first.data()), first.size()},
                  {const_cast<std::byte*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    return after(::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL),
                 status::wants_write);
  }
  bool has_buffered() const override { return false; }
  int descriptor() const override { return fd_.get(); }
  std::string problem() const override { return problem_; }
  void close() override { fd_.reset(); }

private:
  moved after(ssize_t n, status again) {
    if (n > 0)
      return {static_cast<std::size_t>(n), status::ok};
    if (n == 0 || errno == ECONNRESET || errno == EPIPE)
      return {0, status::closed};
    if (errno == EAGAIN)
      return {0, again};
    problem_ = std::strerror(errno);
    return {0, status::failed};
  }

  net::descriptor fd_;
  std::string problem_;
};

/// Both ends of one.
inline std::pair<std::unique_ptr<stream>, std::unique_ptr<stream>>
connected_streams() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    throw std::runtime_error("no pair of sockets");
  return {std::make_unique<socket_stream>(fds[0]),
          std::make_unique<socket_stream>(fds[1])};
}

} // namespace troupe::net::testing
