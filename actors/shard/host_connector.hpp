#pragma once

#include <caf/actor_addr.hpp>

#include <functional>
#include <string>

namespace troupe {

/// Connects to the copies of the process at an address, on another thread, and
/// sends a `host_link` to the receiver, also if it fails.
using host_connector =
  std::function<void(const std::string& address, const caf::actor_addr& to)>;

} // namespace troupe
