#pragma once

#include <cstdint>
#include <vector>

namespace troupe::net {

/// Reserves free TCP ports of 127.0.0.1 for processes that start later. While a
/// port is reserved, the kernel does not select it for a socket that asks for
/// any free port. A process that names the port and sets SO_REUSEADDR, as
/// `endpoint` does, can listen on it.
class reserved_ports {
public:
  /// @errors throws std::runtime_error if fewer than `count` ports are free.
  explicit reserved_ports(std::size_t count);
  ~reserved_ports();
  reserved_ports(const reserved_ports&) = delete;
  reserved_ports& operator=(const reserved_ports&) = delete;

  const std::vector<std::uint16_t>& numbers() const { return numbers_; }

private:
  std::vector<int> sockets_;
  std::vector<std::uint16_t> numbers_;
};

} // namespace troupe::net
