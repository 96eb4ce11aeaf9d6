#pragma once

#include "troupe/net/address.hpp"

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace troupe::net {

/// A descriptor that is closed with its owner.
class owned_descriptor {
public:
  explicit owned_descriptor(int x = -1) : it_{x} {}
  ~owned_descriptor();
  owned_descriptor(owned_descriptor&& x) noexcept
    : it_{std::exchange(x.it_, -1)} {}
  owned_descriptor& operator=(owned_descriptor&& x) noexcept {
    std::swap(it_, x.it_);
    return *this;
  }

  int get() const { return it_; }
  int release() { return std::exchange(it_, -1); }
  explicit operator bool() const { return it_ >= 0; }

private:
  int it_;
};

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
owned_descriptor listen_at(const place& x);

/// A socket that is being connected; `connected` says how that went, once it
/// can be written. Empty, with `errno` set, if it cannot be.
owned_descriptor start_connecting(const place& x);

/// @returns 0, or an error number. To itself, it was refused.
int connected(int descriptor);

/// The next that dials; empty, with `errno` set, if there is none.
owned_descriptor accept_from(int listening, place& from);

/// The address that a socket is bound to.
place bound_to(int descriptor);

} // namespace troupe::net
