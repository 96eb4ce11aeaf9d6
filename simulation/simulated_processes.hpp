#pragma once

#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <vector>

// A simulated process has the roles of a real process: chief or local agent,
// replicas, proxies, skeletons and a lane backend. All processes are in one
// actor system, on one thread. Only the simulated network connects the
// processes. The processes join the job as real ones do: each has a membership
// actor, which opens the control connections. Between any two
// processes there are two lanes, one for contributions and one for results. The
// program that calls a process's replica group runs on a fiber instead of a
// thread. After a process is disconnected, its roles continue to run. Its
// connections close at both ends.

namespace troupe::simulation {

/// Number of processes of a simulated job, and the network between them.
struct process_layout {
  /// In [1, number of replicas] if `replicas_by_process` is empty; else its
  /// size.
  std::uint32_t processes = 1;
  simulation::network_options network{};
  /// The replicas that each process hosts; a process may host none. Empty: of R
  /// replicas, process p of P hosts [p R / P, (p + 1) R / P).
  std::vector<placement::id_list> replicas_by_process{};
};

/// The simulated processes of a job, named "process 0", "process 1", ...
/// Process 0 is the leader.
class simulated_processes {
public:
  /// @param sim     the simulator that runs all roles; must outlive this
  ///                object.
  /// @param options of the whole job.
  /// @param faults  fault injector for messages and packets; null: none. Must
  ///                outlive this object.
  /// @errors throws std::invalid_argument for invalid options.
  simulated_processes(simulator& sim, const replica_group_options& options,
                      const process_layout& layout,
                      random_fault_injector* faults = nullptr);
  ~simulated_processes();
  simulated_processes(const simulated_processes&) = delete;
  simulated_processes& operator=(const simulated_processes&) = delete;

  std::uint32_t count() const; ///< Number of processes.
  /// Returns the replica group of a process.
  replica_group& group_of(std::uint32_t process);
  simulated_network& network();

  /// Runs the programs of all processes concurrently. Calls `program` for each
  /// process on a fiber of its own, and runs the simulator while all fibers
  /// wait for their replica groups.
  /// @returns for each process the exception that its program threw. Null:
  ///          none.
  std::vector<std::exception_ptr>
  run_all(const std::function<void(std::uint32_t)>& program);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Makes one replica group whose replicas are in several simulated processes:
/// `run` runs the steps in all processes. If processes fail, `run` throws the
/// error of the first failed process that is still connected. If no failed
/// process is connected, `run` throws the error of the first failed process.
std::unique_ptr<replica_group>
make_replica_group(simulator& sim, const replica_group_options& options,
                   const process_layout& layout,
                   random_fault_injector* faults = nullptr);

} // namespace troupe::simulation
