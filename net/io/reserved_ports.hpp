#pragma once

#include <cstdint>
#include <vector>

namespace troupe::net {

/// Reserves free TCP ports of 127.0.0.1 for processes that will be started. The
/// kernel gives a reserved port to no other process by chance. A process can
/// listen on it with SO_REUSEADDR, as `endpoint` does, while it is reserved.
class held_ports {
public:
  /// @errors throws std::runtime_error if there are fewer free ports.
  explicit held_ports(std::size_t count);
  ~held_ports();
  held_ports(const held_ports&) = delete;
  held_ports& operator=(const held_ports&) = delete;

  const std::vector<std::uint16_t>& numbers() const { return numbers_; }

private:
  std::vector<int> sockets_;
  std::vector<std::uint16_t> numbers_;
};

} // namespace troupe::net
