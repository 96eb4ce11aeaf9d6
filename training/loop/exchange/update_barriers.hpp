#pragma once

#include <cstdint>

namespace troupe {

/// Barriers of a step after which the replicas of a process update one copy of
/// the parameters: `gradients_complete` before the update, `update_complete`
/// after it.
enum update_barriers : std::uint32_t { gradients_complete, update_complete };

} // namespace troupe
