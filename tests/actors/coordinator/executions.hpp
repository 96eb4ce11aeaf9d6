#pragma once

#include "troupe/strategies/coordinator/messages.hpp"

#include <cstdint>

namespace troupe::testing {

/// Returns the first execution of the closure with this ordinal.
inline coordinator::execution execution(std::uint64_t ordinal) {
  return {.ordinal = ordinal};
}

} // namespace troupe::testing
