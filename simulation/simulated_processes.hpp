#pragma once

#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <vector>

// A simulated process has the roles of a real one: chief or local agent,
// replicas, proxies, skeletons and a lane backend. All processes are in one
// actor system, on one thread. Two of them share only the simulated network: a
// control connection and two lanes, for contributions and for results. A fiber
// stands for the thread that calls the replica group. A process that is cut off
// lives on, and its connections close too.

namespace troupe::simulation {

/// Number of processes of a simulated job, and the network between them.
struct spread {
  std::uint32_t processes = 1; ///< In [1, number of replicas].
  simulation::network network{};
};

/// The simulated processes of a job, named "process 0", "process 1", ...
/// Process 0 is the leader.
class processes {
public:
  /// @param sim     the simulator that runs all roles; must outlive this.
  /// @param options of the whole job. Of R replicas, process p of P hosts
  ///                [p R / P, (p + 1) R / P).
  /// @param faults  fault injector for messages and packets; null: none. Must
  ///                outlive this.
  /// @errors throws std::invalid_argument for invalid options.
  processes(sim& in, const crew_options& options, const spread& over,
            fault_dice* faults = nullptr);
  ~processes();
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  std::uint32_t count() const; ///< Number of processes.
  /// Replica group of a process.
  crew& of(std::uint32_t process);
  simulated_network& network();

  /// Runs the programs of all processes concurrently: calls `program` for each
  /// process on a fiber of its own, and runs the simulator while all fibers
  /// wait for their replica groups.
  /// @returns by process, the exception that its program threw; null: none.
  std::vector<std::exception_ptr>
  each(const std::function<void(std::uint32_t)>& program);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Makes one replica group whose replicas are in several simulated processes:
/// `run` runs the steps in all of them. If processes fail, it throws the error
/// of the first that is not cut off, or else of the first.
std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                const spread& over,
                                fault_dice* faults = nullptr);

} // namespace troupe::simulation
