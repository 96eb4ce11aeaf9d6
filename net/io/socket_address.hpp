#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace troupe::net {

/// An address of a host, with its port, as the kernel has it.
struct place {
  sockaddr_storage it{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&it); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&it); }
  std::uint16_t port() const;
  void set_port(std::uint16_t x);
  bool is_loopback() const;
};

/// "127.0.0.1:80"
std::string to_string(const place& x);

/// Whether the host is an IPv4 or IPv6 address, not a name.
bool is_numeric(const address& x);

struct places {
  std::vector<place> found;
  std::string problem; ///< If there are none.
};
/// Where an address is. Asks the name service, and may block for seconds,
/// unless it is numeric.
places resolve(const address& x);

/// A socket that listens there, non-blocking; empty, with `errno` set, if not.
descriptor listen_at(const place& x);

/// A socket that is being connected; `connected` says how that went, once it
/// can be written. Empty, with `errno` set, if it cannot be.
descriptor start_connecting(const place& x);

/// @returns 0, or an error number. To itself, it was refused.
int connected(int descriptor);

/// The next that dials; empty, with `errno` set, if there is none.
descriptor accept_from(int listening, place& from);

/// The address that a socket is bound to.
place bound_to(int descriptor);

} // namespace troupe::net
