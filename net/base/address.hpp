#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::net {

/// Address at which a process listens: a host (a name, an IPv4 or an IPv6
/// address) and a port.
struct address {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const address&, const address&) = default;
};

/// Parses "host:port", such as "127.0.0.1:80" or "[::1]:80".
/// @errors throws std::invalid_argument with an error sentence.
address parse_address(std::string_view text);
std::string to_string(const address& x);

} // namespace troupe::net
