#pragma once

#include "troupe/training/strategies/strategy_state.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Runs steps on the strategy's replicas, each in replica context. If it
/// throws, a stuck replica may still be inside the step function, so the
/// function must own what it uses. The function is destroyed when the call has
/// ended and no replica is inside.
/// @errors throws std::logic_error if a run is active, or in a replica context;
///         the exception of the lowest replica whose step threw; else as
///         `replica_group::run`.
std::uint64_t run_steps(const std::shared_ptr<strategy_state>& state,
                        const run_request& request);

/// Makes the state of a strategy over a replica group, with a copy of the
/// parameters for each replica of this process.
/// @param devices of the replicas of this process.
std::shared_ptr<strategy_state>
make_strategy_state(std::unique_ptr<replica_group> group, std::string name,
                    std::vector<device> devices, int threads);

} // namespace troupe
