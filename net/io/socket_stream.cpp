#include "troupe/net/io/socket_stream.hpp"

#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe::net {

namespace {

bool is_reset(int error) {
  return error == ECONNRESET || error == EPIPE || error == ENOTCONN;
}

class socket_stream final : public stream {
public:
  explicit socket_stream(int descriptor) : descriptor_{descriptor} {}
  ~socket_stream() override { close(); }
  socket_stream(const socket_stream&) = delete;
  socket_stream& operator=(const socket_stream&) = delete;

  io_result read_some(std::span<std::byte> target) override {
    for (;;) {
      const auto n = ::recv(descriptor_, target.data(), target.size(), 0);
      if (n == 0) {
        problem_ = "the other side closed the connection";
        return {0, status::closed};
      }
      if (n > 0 || errno != EINTR)
        return outcome(n, status::wants_read);
    }
  }

  io_result write_some(std::span<const std::byte> first,
                       std::span<const std::byte> second) override {
    iovec parts[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                      {const_cast<std::byte*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = second.empty() ? 1 : 2;
    for (;;) {
      const auto n = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
      if (n >= 0 || errno != EINTR)
        return outcome(n, status::wants_write);
    }
  }

  bool has_buffered() const override { return false; }
  int descriptor() const override { return descriptor_; }
  std::string problem() const override { return problem_; }

  void close() override {
    if (const auto x = std::exchange(descriptor_, -1); x >= 0)
      ::close(x);
  }

private:
  io_result outcome(ssize_t n, status if_not_now) {
    if (n > 0)
      return {static_cast<std::size_t>(n), status::ok};
    if (n == 0 || errno == EAGAIN || errno == EWOULDBLOCK)
      return {0, if_not_now};
    const auto error = errno;
    problem_ = std::generic_category().message(error);
    return {0, is_reset(error) ? status::closed : status::failed};
  }

  int descriptor_;
  std::string problem_;
};

[[noreturn]] void fail(const char* what) {
  throw std::system_error{errno, std::generic_category(), what};
}

} // namespace

void prepare_socket(int descriptor) {
  const auto flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0)
    fail("cannot make a socket non-blocking");
  if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0)
    fail("cannot set FD_CLOEXEC on a socket");
  const int on = 1; // a Unix socket rejects both options, which is harmless
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

std::unique_ptr<stream> wrap_socket(int descriptor) {
  auto x = std::make_unique<socket_stream>(descriptor);
  prepare_socket(descriptor);
  return x;
}

} // namespace troupe::net
