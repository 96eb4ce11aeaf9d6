#pragma once

#include "troupe/simulation/simulated_processes.hpp"
#include "troupe/training/strategies/strategy.hpp"

namespace troupe::simulation {

/// A simulated job: what `crew_options` has, and over what it is spread.
struct job_setup {
  std::uint32_t replicas = 1;
  std::uint32_t processes = 1;
  int threads = 1;
  std::chrono::milliseconds patience{60'000};
  crew_options::reducers reducing = crew_options::reducers::automatic;
  std::uint64_t seed = 0;
  std::uint64_t lease = 0;
  simulation::network network{};

  crew_options crew() const {
    return {.replicas = replicas,
            .threads = threads,
            .patience = patience,
            .reducing = reducing,
            .seed = seed,
            .lease = lease};
  }
};

/// What `mirrored_strategy` is, with a simulated crew: a copy of the parameters
/// for each replica, all on the calling thread, though the replicas may be in
/// several processes, between which there is nothing but a network. Models made
/// in its scope train as they do anywhere; give `fit` `.prefetch = 0`, for a
/// thread that reads ahead is outside the simulation.
/// @param in     outlives the strategy and all made in its scope.
/// @param faults as for `make_crew`.
strategy make_strategy(sim& in, const job_setup& setup,
                       fault_dice* faults = nullptr);

/// What `multi_worker_mirrored_strategy` is in one process of a job: for the
/// program of that process, over the replicas that it holds.
/// @param of outlives the strategy; see `processes::each`.
strategy make_worker_strategy(processes& of, std::uint32_t process,
                              int threads = 1);

} // namespace troupe::simulation
