#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Runs steps on the strategy's replicas, in replica context. If `run_steps`
/// throws, a stuck replica may still be inside the step function, so the
/// function must own what it uses. The function is destroyed when `run_steps`
/// has ended and no replica is inside the function.
/// @returns the result of `replica_group::run`.
/// @errors throws std::logic_error if a run is active, or in a replica's
///         function. If steps threw, rethrows the exception of the replica with
///         the lowest id. Else throws as `replica_group::run`.
std::uint64_t run_steps(const std::shared_ptr<strategy_state>& state,
                        const run_request& request);

/// Makes the state of a strategy that runs on `group`. In a job of one process,
/// all replicas share one copy of the parameters; otherwise each replica of
/// this process has its own copy.
/// @param devices devices of the replicas of this process.
std::shared_ptr<strategy_state>
make_strategy_state(std::unique_ptr<replica_group> group, std::string name,
                    std::vector<device> devices, int threads);

} // namespace troupe
