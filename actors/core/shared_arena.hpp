#pragma once

#include "troupe/net/shm/shm_arena.hpp"

#include <memory>

namespace troupe {

/// Returns the shared-memory arena of this process; null if the system does not
/// support one. The first call creates it. Large tensors allocated later lie in
/// the arena, so that other processes on this host can read them without a
/// copy.
std::shared_ptr<const net::shm_arena> shared_arena();

} // namespace troupe
