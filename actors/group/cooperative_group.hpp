#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <memory>

namespace troupe {

/// Makes a group of several replicas that run in turn on the caller's thread,
/// each on its own fiber.
std::unique_ptr<replica_group>
make_cooperative_group(const replica_group_options& options);

} // namespace troupe
