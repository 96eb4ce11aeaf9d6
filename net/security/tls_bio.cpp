#include "troupe/net/security/tls_bio.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <openssl/ssl.h>
#include <sys/socket.h>

namespace troupe::net {

namespace {

struct buffer {
  std::size_t begin = 0, end = 0; ///< Range of bytes in use.
  std::array<char, records_at_a_time * SSL3_RT_MAX_PACKET_SIZE> bytes;
};

struct socket_state {
  int descriptor;
  buffer out; ///< Bytes to send.
  buffer in;  ///< Received bytes that OpenSSL has not read.
};

socket_state& state_of(BIO* x) {
  return *static_cast<socket_state*>(BIO_get_data(x));
}

bool not_now() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

/// @returns true if all bytes were sent; otherwise errno or a retry flag has
///          the reason.
bool send_gathered(BIO* x) {
  BIO_clear_retry_flags(x);
  auto& [descriptor, out, in] = state_of(x);
  while (out.begin != out.end) {
    const auto n = ::send(descriptor, out.bytes.data() + out.begin,
                          out.end - out.begin, MSG_NOSIGNAL);
    if (n >= 0) {
      out.begin += static_cast<std::size_t>(n);
    } else if (not_now()) {
      BIO_set_retry_write(x);
      return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  out.begin = out.end = 0;
  return true;
}

int write(BIO* x, const char* from, int count) {
  BIO_clear_retry_flags(x);
  auto& out = state_of(x).out;
  if (out.end == out.bytes.size() && !send_gathered(x))
    return -1;
  const auto n = std::min<std::size_t>(out.bytes.size() - out.end, count);
  std::memcpy(out.bytes.data() + out.end, from, n);
  out.end += n;
  return static_cast<int>(n);
}

/// Reads from the socket into `received`. @returns the result of `recv`.
ssize_t receive(BIO* x) {
  auto& [descriptor, out, in] = state_of(x);
  for (;;) {
    const auto n = ::recv(descriptor, in.bytes.data(), in.bytes.size(), 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && not_now())
      BIO_set_retry_read(x);
    if (n == 0)
      BIO_set_flags(x, BIO_FLAGS_IN_EOF);
    in.begin = 0;
    in.end = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    return n;
  }
}

int read(BIO* x, char* to, int count) {
  BIO_clear_retry_flags(x);
  auto& in = state_of(x).in;
  if (in.begin == in.end)
    if (const auto n = receive(x); n <= 0)
      return static_cast<int>(n);
  const auto n = std::min<std::size_t>(in.end - in.begin, count);
  std::memcpy(to, in.bytes.data() + in.begin, n);
  in.begin += n;
  return static_cast<int>(n);
}

long control(BIO* x, int what, long, void*) {
  const auto& in = state_of(x).in;
  if (what == BIO_CTRL_EOF)
    return BIO_test_flags(x, BIO_FLAGS_IN_EOF) != 0;
  if (what == BIO_CTRL_PENDING)
    return static_cast<long>(in.end - in.begin);
  if (what == BIO_CTRL_FLUSH)
    return send_gathered(x) ? 1 : -1;
  return what == BIO_CTRL_DUP;
}

int destroy(BIO* x) {
  delete static_cast<socket_state*>(BIO_get_data(x));
  return 1;
}

/// Created once and never freed: sockets of any thread use it until the process
/// ends.
const BIO_METHOD* method() {
  static const BIO_METHOD* const it = [] {
    auto* x = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK,
                           "socket that gathers");
    if (!x)
      throw std::bad_alloc{};
    BIO_meth_set_write(x, write);
    BIO_meth_set_read(x, read);
    BIO_meth_set_ctrl(x, control);
    BIO_meth_set_destroy(x, destroy);
    return x;
  }();
  return it;
}

} // namespace

BIO* make_tls_socket(int descriptor) {
  std::unique_ptr<socket_state> state{new socket_state};
  state->descriptor = descriptor;
  BIO* x = BIO_new(method());
  if (!x)
    throw std::bad_alloc{};
  BIO_set_data(x, state.release());
  BIO_set_init(x, 1);
  return x;
}

} // namespace troupe::net
