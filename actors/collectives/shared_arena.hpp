#pragma once

#include "troupe/net/shm/shm_arena.hpp"

#include <memory>

namespace troupe {

/// Returns the shared-memory arena of this process; the first call creates it.
/// From then on large tensors are allocated in it, so that processes of this
/// host can read them without a copy.
/// @returns null if the system does not support it.
std::shared_ptr<const net::shm_arena> shared_arena();

} // namespace troupe
