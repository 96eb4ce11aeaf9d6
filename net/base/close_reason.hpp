#pragma once

#include <cstdint>

namespace troupe::net {

/// How a link ended: what may be concluded differs.
enum class ending : std::uint8_t {
  dead,   ///< The other end is known to be gone.
  silent, ///< Nothing is heard of it; it may live.
  broken, ///< What was sent is no frame.
};

} // namespace troupe::net
