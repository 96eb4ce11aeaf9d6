#pragma once

#include <cstdint>

namespace troupe {

/// Activation that a fused op applies to its result.
enum class activation : std::uint8_t { none, relu };

} // namespace troupe
