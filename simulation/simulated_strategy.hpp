#pragma once

#include "troupe/simulation/simulated_processes.hpp"
#include "troupe/training/strategies/strategy.hpp"

namespace troupe::simulation {

/// A simulated job: the options of its replica group, and the processes and
/// network that it runs on.
struct job_setup {
  std::uint32_t replicas = 1;  ///< Number of replicas of the job.
  std::uint32_t processes = 1; ///< In [1, replicas].
  int threads = 1;
  std::chrono::milliseconds step_timeout{60'000};
  replica_group_options::reducer_kind reduce_on =
    replica_group_options::reducer_kind::automatic;
  std::uint64_t seed = 0;
  std::uint64_t step_window = 0;
  simulation::network_options network{};
  /// The replicas that each process hosts. Empty: consecutive ones, as evenly
  /// as possible.
  std::vector<placement::id_list> replicas_by_process{};

  replica_group_options group_options() const {
    return {.replicas = replicas,
            .threads = threads,
            .step_timeout = step_timeout,
            .reducers = reduce_on,
            .seed = seed,
            .step_window = step_window};
  }
};

/// Makes a strategy like `mirrored_strategy`, over a simulated replica group.
/// In one simulated process, all replicas share one copy of the parameters; in
/// several, each replica has a copy. All replicas run on the calling thread.
/// Models made in the strategy's scope train as under any other strategy. Give
/// `fit` the option
/// `.prefetch = 0`, because a prefetch thread is outside the simulation.
/// @param sim must outlive the strategy and all models made in its scope.
/// @param faults fault injector for messages and packets; null: none. Must
///               outlive the strategy.
/// @errors throws std::invalid_argument for an invalid setup.
strategy make_strategy(simulator& sim, const job_setup& setup,
                       random_fault_injector* faults = nullptr);

/// Makes a strategy like `multi_worker_mirrored_strategy` for one simulated
/// process, over the replicas of that process. To be called by a program of
/// `simulated_processes::run_all`.
/// @param processes must outlive the strategy.
strategy make_worker_strategy(simulated_processes& processes,
                              std::uint32_t process, int threads = 1);

} // namespace troupe::simulation
