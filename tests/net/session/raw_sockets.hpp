#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/io/socket_address.hpp"
#include "troupe/net/session/handshake.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <vector>

namespace troupe::net::testing {

/// A plain blocking socket that can send any bytes.
class stranger {
public:
  /// Creates a socket that is not connected.
  stranger() : it_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    if (!it_)
      throw std::runtime_error{"no more sockets"};
    const timeval most{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(it_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    ::setsockopt(it_.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  }
  explicit stranger(const address& where) : stranger{} { connect(where); }

  void connect(const address& where) {
    const auto at = resolve(where).found.at(0);
    if (::connect(it_.get(), at.get(), at.size) != 0)
      throw std::runtime_error{std::string{"no connection: "}
                               + std::strerror(errno)};
  }

  /// @returns true if all bytes were sent.
  bool say(std::span<const std::byte> x) {
    while (!x.empty()) {
      const auto n = ::send(it_.get(), x.data(), x.size(), MSG_NOSIGNAL);
      if (n <= 0)
        return false;
      x = x.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// Receives up to `max_bytes`; fewer if the connection ends.
  std::vector<std::byte> hear(std::size_t most) {
    std::vector<std::byte> x(most);
    std::size_t size = 0;
    for (ssize_t n = 1; n > 0 && size < most;) {
      n = ::recv(it_.get(), x.data() + size, most - size, 0);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        throw std::runtime_error{"the endpoint neither sends nor closes"};
      size += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    x.resize(size);
    return x;
  }
  bool is_closed() { return hear(1).empty(); }

  /// Runs the dialer's side of a handshake.
  /// @returns its final state.
  handshake::state meet(const hello& who, std::string secret = {}) {
    handshake x{handshake::side::dialer, std::move(secret), random_nonce(),
                who};
    while (x.now() == handshake::state::speaking) {
      say(x.unsent());
      x.sent(x.unsent().size());
      const auto came = hear(x.wants());
      if (came.empty())
        break;
      x.take(came);
    }
    return x.now();
  }

  int descriptor() const { return it_.get(); }

private:
  net::descriptor it_;
};

} // namespace troupe::net::testing
