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
  std::size_t begin = 0, end = 0; ///< The bytes in [begin, end) are in use.
  std::array<char, records_per_syscall * SSL3_RT_MAX_PACKET_SIZE> bytes;
};

struct socket_state {
  int descriptor;
  buffer unsent;   ///< Written bytes that the socket has not yet accepted.
  buffer received; ///< Received bytes that OpenSSL has not yet read.
};

socket_state& state_of(BIO* bio) {
  return *static_cast<socket_state*>(BIO_get_data(bio));
}

bool not_now() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

/// Sends the bytes in `unsent`.
/// @returns true if all bytes were sent. Otherwise the BIO's retry flag is set,
///          or `errno` has an error.
bool send_buffered(BIO* bio) {
  BIO_clear_retry_flags(bio);
  auto& [descriptor, unsent, received] = state_of(bio);
  while (unsent.begin != unsent.end) {
    const auto n = ::send(descriptor, unsent.bytes.data() + unsent.begin,
                          unsent.end - unsent.begin, MSG_NOSIGNAL);
    if (n >= 0) {
      unsent.begin += static_cast<std::size_t>(n);
    } else if (not_now()) {
      BIO_set_retry_write(bio);
      return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  unsent.begin = unsent.end = 0;
  return true;
}

int write(BIO* bio, const char* source, int count) {
  BIO_clear_retry_flags(bio);
  auto& unsent = state_of(bio).unsent;
  if (unsent.end == unsent.bytes.size() && !send_buffered(bio))
    return -1;
  const auto n = std::min<std::size_t>(unsent.bytes.size() - unsent.end, count);
  std::memcpy(unsent.bytes.data() + unsent.end, source, n);
  unsent.end += n;
  return static_cast<int>(n);
}

/// Reads from the socket into `received`, and returns the result of `recv`.
ssize_t receive(BIO* bio) {
  auto& [descriptor, unsent, received] = state_of(bio);
  for (;;) {
    const auto n =
      ::recv(descriptor, received.bytes.data(), received.bytes.size(), 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && not_now())
      BIO_set_retry_read(bio);
    if (n == 0)
      BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    received.begin = 0;
    received.end = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    return n;
  }
}

int read(BIO* bio, char* target, int count) {
  BIO_clear_retry_flags(bio);
  auto& received = state_of(bio).received;
  if (received.begin == received.end)
    if (const auto n = receive(bio); n <= 0)
      return static_cast<int>(n);
  const auto n = std::min<std::size_t>(received.end - received.begin, count);
  std::memcpy(target, received.bytes.data() + received.begin, n);
  received.begin += n;
  return static_cast<int>(n);
}

long control(BIO* bio, int command, long, void*) {
  const auto& received = state_of(bio).received;
  if (command == BIO_CTRL_EOF)
    return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
  if (command == BIO_CTRL_PENDING)
    return static_cast<long>(received.end - received.begin);
  if (command == BIO_CTRL_FLUSH)
    return send_buffered(bio) ? 1 : -1;
  return command == BIO_CTRL_DUP;
}

int destroy(BIO* bio) {
  delete static_cast<socket_state*>(BIO_get_data(bio));
  return 1;
}

/// Returns the functions of the BIO. They are never freed, because threads may
/// use sockets until the process ends.
const BIO_METHOD* method() {
  static const BIO_METHOD* const created = [] {
    auto* table = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK,
                               "socket that gathers");
    if (!table)
      throw std::bad_alloc{};
    BIO_meth_set_write(table, write);
    BIO_meth_set_read(table, read);
    BIO_meth_set_ctrl(table, control);
    BIO_meth_set_destroy(table, destroy);
    return table;
  }();
  return created;
}

} // namespace

BIO* make_tls_bio(int descriptor) {
  std::unique_ptr<socket_state> state{new socket_state};
  state->descriptor = descriptor;
  BIO* bio = BIO_new(method());
  if (!bio)
    throw std::bad_alloc{};
  BIO_set_data(bio, state.release());
  BIO_set_init(bio, 1);
  return bio;
}

} // namespace troupe::net
