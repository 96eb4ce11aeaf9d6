#pragma once

#include "troupe/simulation/crew.hpp"
#include "troupe/training/strategy.hpp"

namespace troupe::simulation {

/// What `mirrored_strategy` is, with a simulated crew: a copy of the parameters
/// for each replica, all on the calling thread. Models made in its scope train
/// as they do anywhere; give `fit` `.prefetch = 0`, for a thread that reads
/// ahead is outside the simulation.
/// @param in     outlives the strategy and all made in its scope.
/// @param faults as for `make_crew`.
strategy make_strategy(sim& in, const crew_options& options,
                       fault_dice* faults = nullptr);

} // namespace troupe::simulation
