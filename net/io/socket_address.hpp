#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace troupe::net {

/// Address and port of a socket in the kernel's form.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::uint16_t port() const;
  void set_port(std::uint16_t x);
  /// True for 127.0.0.0/8, for ::1, and for 127.0.0.0/8 mapped to IPv6.
  bool is_loopback() const;
};

/// Formats as "127.0.0.1:80".
std::string to_string(const socket_address& target);

/// True if the host is an IPv4 or IPv6 address, not a name.
bool is_numeric(const address& x);

/// Result of looking up a host name.
struct resolved_addresses {
  std::vector<socket_address> found;
  std::string problem; ///< Reason why no address was found.
};
/// Looks up the socket addresses of a host. If the host is a name, the call may
/// block for seconds.
resolved_addresses resolve(const address& name);

/// Returns a non-blocking listening socket. Empty: an error, which is in
/// `errno`.
descriptor listen_on(const socket_address& target);

/// Starts to connect and returns the non-blocking socket. When the socket is
/// writable, `connect_result` returns the outcome. Empty: an error, which is in
/// `errno`.
descriptor connect_async(const socket_address& target);

/// Returns 0 if the socket is connected, else an error number. A socket that
/// dials a free port of its own host can become connected to itself; the result
/// is then ECONNREFUSED.
int connect_result(int descriptor);

/// Accepts the next connection, and sets `peer` to the address of its other
/// end. Empty: no connection waits, or an error, which is in `errno`.
descriptor accept_from(int listening, socket_address& peer);

/// Returns the address to which a socket is bound.
socket_address local_address(int descriptor);

} // namespace troupe::net
