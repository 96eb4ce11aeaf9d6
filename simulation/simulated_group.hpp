#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulator.hpp"

#include <memory>

namespace troupe::simulation {

/// A crew whose roles are the same actors as in a program, all on the calling
/// thread: whoever waits lets the simulator go on. Time is the simulator's, so
/// that a patience of a minute costs nothing.
/// @param in     where the roles run; outlives the crew.
/// @param faults what happens to their messages; null: nothing. Outlives the
///               crew.
std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                fault_dice* faults = nullptr);

} // namespace troupe::simulation
