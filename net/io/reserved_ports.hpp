#pragma once

#include <cstdint>
#include <vector>

namespace troupe::net {

/// Reserves free TCP ports of 127.0.0.1 for processes that will be started. The
/// kernel gives a reserved port to no other process by chance. A process can
/// listen on it with SO_REUSEADDR, as `endpoint` does, while it is reserved.
class reserved_ports {
public:
  /// @errors throws std::runtime_error if there are fewer free ports.
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
