#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/strategies/placement.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// The faults of a simulated job. A plan describes the faults; a seed decides
// which of them occur, and when.

namespace troupe::simulation {

/// Logical replica that a fault applies to.
struct replica {
  std::uint32_t id = 0;
};

/// Simulated process that a fault applies to.
struct process {
  std::uint32_t id = 0;
};

/// Step in which a fault occurs.
struct at_step {
  std::uint64_t step = 0; ///< Step number, from 0.
};

/// Describes the faults that may occur. A probability is applied to each
/// message independently.
///
/// A fault that is set for a step occurs once. It is scheduled when its
/// replica, or a replica of its process, first sends a message of that step or
/// a later step. It occurs after 0 to 12 further messages of the job.
///
///   faults{}.kill(replica{2}, at_step{17}).drop(replica{0}, 0.01).delay(0.1)
class faults {
public:
  using duration = std::chrono::nanoseconds;

  /// Kills the replica's actor in the step.
  faults& kill(replica target, at_step when);

  /// Drops messages of all roles, or only messages to and from one replica.
  /// @errors throws std::invalid_argument for a probability outside [0, 1].
  faults& drop(double probability);
  faults& drop(replica target, double probability);

  /// Delivers messages twice: messages of all roles, or only messages to and
  /// from one replica.
  /// @errors throws std::invalid_argument for a probability outside [0, 1].
  faults& duplicate(double probability);
  faults& duplicate(replica target, double probability);

  /// Delays messages by up to `max_delay`: messages of all roles, or only
  /// messages to and from one replica. A message that is sent later can arrive
  /// first.
  /// @errors throws std::invalid_argument for a probability outside [0, 1] or a
  ///         delay below 1 ns.
  faults& delay(double probability,
                duration max_delay = std::chrono::milliseconds{100});
  faults& delay(replica target, double probability,
                duration max_delay = std::chrono::milliseconds{100});

  /// Closes all connections of a process in the step. Both sides of each
  /// connection are notified.
  faults& disconnect(process target, at_step when);

  /// Stops all traffic of a process from the step on. Neither side of a
  /// connection is notified.
  faults& partition(process target, at_step when);

  /// Makes all messages to and from a process take `factor` times as long,
  /// from the step on.
  /// @errors throws std::invalid_argument for a factor outside [1, 1e9].
  faults& clog(process target, at_step when, double factor);

  /// Kill of a replica in a step.
  struct kill_fault {
    std::uint32_t replica;
    std::uint64_t step;
  };
  /// Fault of all connections of a process.
  struct network_fault {
    enum class kind { disconnect, partition, clog } type;
    std::uint32_t process;
    std::uint64_t step;
    double factor = 1; ///< Slowdown, if the kind is `clog`.
  };
  enum class kind { drop, duplicate, delay };
  /// Fault of single messages.
  struct message_fault {
    kind type;
    std::optional<std::uint32_t> replica; ///< None: messages of all roles.
    double probability;                   ///< In [0, 1].
    duration max_delay; ///< Maximum delay, if the kind is `delay`.
  };
  const std::vector<kill_fault>& kills() const { return kills_; }
  const std::vector<message_fault>& message_faults() const {
    return message_faults_;
  }
  const std::vector<network_fault>& network_faults() const {
    return network_faults_;
  }

private:
  faults& add(const message_fault& fault);

  std::vector<kill_fault> kills_;
  std::vector<message_fault> message_faults_;
  std::vector<network_fault> network_faults_;
};

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

  random_fault_injector(faults plan, std::uint64_t seed);

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
  std::optional<faults::network_fault> next_network_fault();

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
  bool happens(double probability);

  faults plan_;
  std::vector<scheduled_fault> kills_,
    network_faults_; ///< In the order of the plan.
  /// None: one process, and no fault of a process occurs.
  std::optional<placement> placement_;
  std::size_t messages_ = 0; ///< Number of sent messages.
  std::mt19937_64 rng_;
};

} // namespace troupe::simulation
