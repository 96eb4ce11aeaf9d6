#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <memory>

namespace troupe {

class runtime;

/// Makes a group in which each replica is an actor on a thread of its own, and
/// a chief commits the steps. The runtime must outlive the group.
/// @errors throws std::invalid_argument for invalid options.
std::unique_ptr<crew> make_crew(runtime& in, const crew_options& options);

} // namespace troupe
