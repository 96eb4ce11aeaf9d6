#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulator.hpp"

#include <memory>

namespace troupe::simulation {

/// Makes a replica group with the actors of a real job, which all run on the
/// calling thread. While a caller waits, it runs the simulator. Time is
/// virtual, so a timeout of a minute takes no real time.
/// @param sim    the simulator that runs the roles; must outlive the group.
/// @param faults fault injector for the roles' messages; null: none. Must
///               outlive the group.
/// @errors throws std::invalid_argument for invalid options.
std::unique_ptr<replica_group>
make_replica_group(simulator& sim, const replica_group_options& options,
                   random_fault_injector* faults = nullptr);

} // namespace troupe::simulation
