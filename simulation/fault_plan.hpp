#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/actors/faults/fault_plan.hpp"
#include "troupe/strategies/placement.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// The faults of a simulated job. A plan (actors/faults/fault_plan.hpp)
// describes the faults; a seed decides which of them occur, and when.

namespace troupe::simulation {

using injection::at_step;
using injection::fault;
using injection::fault_kind;
using injection::faults;
using injection::process;
using injection::replica;

/// Fault injector that draws the faults of a plan with one seed. It counts the
/// faults that occur, so that a test can assert that its fault occurred. Used
/// on the simulator's thread only.
class random_fault_injector : public fault_injector {
public:
  struct counts {
    std::size_t kills = 0, drops = 0, duplicates = 0, delays = 0;
    std::size_t cuts = 0;   ///< Disconnected and partitioned processes.
    std::size_t slowed = 0; ///< Slowed processes.
    counts& operator+=(const counts& other);
  };

  /// @errors throws std::invalid_argument for a fault that the simulator does
  ///         not run.
  random_fault_injector(const faults& plan, std::uint64_t seed);

  injected_fault on_send(const role_id& sender, const role_id& receiver,
                         message_kind kind, std::uint64_t generation,
                         std::uint64_t step) override;

  /// Returns a replica whose kill is due. None: no kill is due. Each kill of
  /// the plan is returned once.
  std::optional<std::uint32_t> next_kill();

  /// Sets which replicas each process hosts.
  void set_placement(const placement& job_placement) {
    placement_ = job_placement;
  }

  /// Returns a network fault that is due. None: no network fault is due. Each
  /// network fault of the plan is returned once.
  std::optional<fault> next_network_fault();

  counts fired; ///< Faults that have occurred so far.

private:
  /// State of a fault that the plan sets for a step.
  struct scheduled_fault {
    /// Number of messages of the job after which the fault occurs. None: the
    /// replica or process has not sent a message in the step of the fault.
    std::optional<std::size_t> due;
    bool occurred = false;
  };
  void schedule(scheduled_fault& fault, bool sent);
  bool take_if_due(scheduled_fault& fault) const;
  bool is_hosted_by(const role_id& role, std::uint32_t process) const;

  /// A fault of the plan that occurs once.
  struct single_fault : scheduled_fault {
    fault planned;
  };
  std::vector<single_fault> kills_, network_faults_; ///< In the plan's order.
  std::vector<fault> message_faults_;                ///< In the plan's order.
  /// None: one process, and no fault of a process occurs.
  std::optional<placement> placement_;
  std::size_t messages_ = 0; ///< Number of sent messages.
  std::mt19937_64 rng_;
};

} // namespace troupe::simulation
