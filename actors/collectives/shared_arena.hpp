#pragma once

#include "troupe/net/shm/shm_arena.hpp"

#include <memory>

namespace troupe {

/// The arena of this process. Once this was called, large tensors lie in it, so
/// that processes of this host read them there.
/// @returns null if this system has none.
std::shared_ptr<const net::shm_arena> shared_arena();

} // namespace troupe
