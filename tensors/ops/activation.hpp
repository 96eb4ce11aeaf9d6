#pragma once

#include <cstdint>

namespace troupe {

/// What a fused op applies to its result before writing it.
enum class activation : std::uint8_t { none, relu };

} // namespace troupe
