#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <memory>

namespace troupe {

class runtime;

/// Each replica is an actor on a thread of its own; a chief commits their
/// steps. The runtime must outlive the crew.
/// @errors throws std::invalid_argument for options that make no sense.
std::unique_ptr<crew> make_crew(runtime& in, const crew_options& options);

} // namespace troupe
