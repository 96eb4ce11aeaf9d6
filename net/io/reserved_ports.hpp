#pragma once

#include <cstdint>
#include <vector>

namespace troupe::net {

/// Free TCP ports of 127.0.0.1, held for processes that are about to start:
/// nobody is given them by chance, and who listens there with SO_REUSEADDR, as
/// `endpoint` does, may do so while they are held.
class held_ports {
public:
  /// @errors throws std::runtime_error if there are not as many.
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
