#pragma once

#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <vector>

// A simulated process is a crew of the program's own parts: chief or steward,
// replicas, proxies, gateways and a data plane. All lie in one actor system, on
// one thread, but two processes share nothing except the simulated network: a
// connection for control, a lane for parts and one for sums. A fiber plays the
// thread that calls the crew. Whoever is cut off lives on, and is told
// likewise.

namespace troupe::simulation {

/// Over how many processes a job is spread, and what lies between them.
struct spread {
  std::uint32_t processes = 1; ///< At most as many as replicas.
  simulation::network network{};
};

/// The processes of a job, called "process 0" (which leads), "process 1", ...
class processes {
public:
  /// @param options of the whole job; process p holds replicas
  ///                [p R / P, (p + 1) R / P).
  /// @param in, faults as for `make_crew`.
  /// @errors throws std::invalid_argument for options that make no sense.
  processes(sim& in, const crew_options& options, const spread& over,
            fault_dice* faults = nullptr);
  ~processes();
  processes(const processes&) = delete;
  processes& operator=(const processes&) = delete;

  std::uint32_t count() const;
  /// That process's crew.
  crew& of(std::uint32_t process);
  simulated_network& network();

  /// Plays the programs of all processes at once: calls `program` for each, on
  /// a fiber of its own, and lets the simulator go on whenever all of them
  /// wait for their crews.
  /// @returns by process, what it threw.
  std::vector<std::exception_ptr>
  each(const std::function<void(std::uint32_t)>& program);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// One crew whose replicas are spread over processes: `run` is a run of each of
/// them. Fails as the first process does that is not cut off, if any does.
std::unique_ptr<crew> make_crew(sim& in, const crew_options& options,
                                const spread& over,
                                fault_dice* faults = nullptr);

} // namespace troupe::simulation
