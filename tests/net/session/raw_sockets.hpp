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

/// A blocking TCP socket, by which a test sends arbitrary bytes to an endpoint.
class raw_socket {
public:
  /// Creates a socket that is not connected.
  raw_socket() : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    if (!socket_)
      throw std::runtime_error{"no more sockets"};
    const timeval timeout{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout,
                 sizeof timeout);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout,
                 sizeof timeout);
  }
  explicit raw_socket(const address& peer_address) : raw_socket{} {
    connect(peer_address);
  }

  void connect(const address& peer_address) {
    const auto resolved = resolve(peer_address).found.at(0);
    if (::connect(socket_.get(), resolved.get(), resolved.size) != 0)
      throw std::runtime_error{std::string{"no connection: "}
                               + std::strerror(errno)};
  }

  /// Sends bytes.
  /// @returns true if all bytes were sent.
  bool send(std::span<const std::byte> unsent) {
    while (!unsent.empty()) {
      const auto n =
        ::send(socket_.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
      if (n <= 0)
        return false;
      unsent = unsent.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// Receives `max_bytes` bytes, or fewer if the connection ends.
  /// @errors throws std::runtime_error if no byte arrives for 60 seconds.
  std::vector<std::byte> receive(std::size_t max_bytes) {
    std::vector<std::byte> received(max_bytes);
    std::size_t size = 0;
    for (ssize_t n = 1; n > 0 && size < max_bytes;) {
      n = ::recv(socket_.get(), received.data() + size, max_bytes - size, 0);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        throw std::runtime_error{"the endpoint neither sends nor closes"};
      size += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    received.resize(size);
    return received;
  }
  bool is_closed() { return receive(1).empty(); }

  /// Runs the dialer's side of a handshake.
  /// @returns the final state of the handshake.
  handshake::state run_handshake(const hello& own_hello,
                                 std::string secret = {}) {
    handshake dialer{handshake::side::dialer, std::move(secret), random_nonce(),
                     own_hello};
    while (dialer.current() == handshake::state::in_progress) {
      send(dialer.unsent());
      dialer.sent(dialer.unsent().size());
      const auto received = receive(dialer.bytes_wanted());
      if (received.empty())
        break;
      dialer.receive(received);
    }
    return dialer.current();
  }

  int descriptor() const { return socket_.get(); }

private:
  net::descriptor socket_;
};

} // namespace troupe::net::testing
