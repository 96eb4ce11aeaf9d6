#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace troupe::net {

/// Address and port of a socket in the kernel's form.
struct place {
  sockaddr_storage it{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&it); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&it); }
  std::uint16_t port() const;
  void set_port(std::uint16_t x);
  /// True for 127.0.0.0/8, also if mapped to IPv6, and ::1.
  bool is_loopback() const;
};

/// Formats as "127.0.0.1:80".
std::string to_string(const place& x);

/// True if the host is an IPv4 or IPv6 address, not a name.
bool is_numeric(const address& x);

/// Result of a name lookup.
struct places {
  std::vector<place> found;
  std::string problem; ///< Reason if nothing was found.
};
/// Looks up the socket addresses of an address. May block for seconds in the
/// name service, unless the address is numeric.
places resolve(const address& x);

/// @returns a non-blocking listening socket. Empty, with `errno` set, on
///          failure.
descriptor listen_at(const place& x);

/// @returns a non-blocking socket whose connection is in progress. When it is
///          writable, `connect_result` returns the outcome. Empty, with `errno`
///          set, on failure.
descriptor start_connecting(const place& x);

/// @returns 0 or an error number. A socket that connected to itself returns
///          ECONNREFUSED.
int connected(int descriptor);

/// Accepts the next connection. @returns an empty descriptor, with `errno` set,
/// if there is none.
descriptor accept_from(int listening, place& from);

/// @returns the address that a socket is bound to.
place bound_to(int descriptor);

} // namespace troupe::net
