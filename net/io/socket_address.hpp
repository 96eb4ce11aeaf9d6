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
  /// True for 127.0.0.0/8, also if mapped to IPv6, and ::1.
  bool is_loopback() const;
};

/// Formats as "127.0.0.1:80".
std::string to_string(const socket_address& target);

/// True if the host is an IPv4 or IPv6 address, not a name.
bool is_numeric(const address& x);

/// Result of a name lookup.
struct resolved_addresses {
  std::vector<socket_address> found;
  std::string problem; ///< Reason if nothing was found.
};
/// Looks up the socket addresses of an address. May block for seconds in the
/// name service, unless the address is numeric.
resolved_addresses resolve(const address& name);

/// @returns a non-blocking listening socket. Empty, with `errno` set, on
///          failure.
descriptor listen_on(const socket_address& target);

/// @returns a non-blocking socket whose connection is in progress. When it is
///          writable, `connect_result` returns the outcome. Empty, with `errno`
///          set, on failure.
descriptor connect_async(const socket_address& target);

/// @returns 0 or an error number. A socket that connected to itself returns
///          ECONNREFUSED.
int connect_result(int descriptor);

/// Accepts the next connection. @returns an empty descriptor, with `errno` set,
/// if there is none.
descriptor accept_from(int listening, socket_address& peer);

/// @returns the address that a socket is bound to.
socket_address local_address(int descriptor);

} // namespace troupe::net
