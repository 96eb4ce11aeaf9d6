#pragma once

#include "troupe/actors/core/fault_injector.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// The faults of a simulated job: a plan describes them, and each seed draws
// which of them occur when.

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
  std::uint64_t step = 0; ///< Number of the global step, from 0.
};

/// Description of the faults that may occur. Probabilities apply to each
/// message on its own.
///
///   faults{}.kill(replica{2}, at_step{17}).drop(replica{0}, 0.01).delay(0.1)
class faults {
public:
  using duration = std::chrono::nanoseconds;

  /// Kills the replica's actor once, 0 to 12 messages after its first message
  /// of the step.
  faults& kill(replica who, at_step when);

  /// Drops messages: of all roles, or those to and from one replica.
  /// @errors throws std::invalid_argument for a probability outside [0, 1].
  faults& drop(double chance);
  faults& drop(replica who, double chance);

  /// Delivers messages twice: of all roles, or those to and from one replica.
  /// @errors throws std::invalid_argument for a probability outside [0, 1].
  faults& duplicate(double chance);
  faults& duplicate(replica who, double chance);

  /// Delays messages by up to `max_delay`: of all roles, or those to and from
  /// one replica. Later messages can arrive first.
  /// @errors throws std::invalid_argument for a probability outside [0, 1] or a
  ///         delay below 1 ns.
  faults& delay(double chance,
                duration longest = std::chrono::milliseconds{100});
  faults& delay(replica who, double chance,
                duration longest = std::chrono::milliseconds{100});

  /// Closes all connections of a process, 0 to 12 messages after one of its
  /// replicas first sent a message in the step. Both sides are notified.
  faults& cut(process who, at_step when);

  /// Stops all traffic of a process, 0 to 12 messages after one of its replicas
  /// first sent a message in the step. Neither side is notified.
  faults& isolate(process who, at_step when);

  /// Makes all messages to and from a process take `times` as long, from 0 to
  /// 12 messages after one of its replicas first sent a message in the step.
  /// @errors throws std::invalid_argument for a factor outside [1, 1e9].
  faults& slow(process who, at_step when, double times);

  /// Kill of a replica in a step.
  struct killing {
    std::uint32_t who; ///< Replica.
    std::uint64_t step;
  };
  /// Fault of all connections of a process.
  struct blow {
    enum class kind { cut, isolate, slow } what;
    std::uint32_t who; ///< Process.
    std::uint64_t step;
    double times = 1; ///< Factor, if the kind is `clog`.
  };
  enum class kind { drop, duplicate, delay };
  /// Fault of single messages.
  struct chance {
    kind what;
    std::optional<std::uint32_t> who; ///< Replica. None: all roles.
    double of;                        ///< Probability, in [0, 1].
    duration longest; ///< Maximum delay, if the kind is `delay`.
  };
  const std::vector<killing>& kills() const { return kills_; }
  const std::vector<chance>& chances() const { return chances_; }
  const std::vector<blow>& blows() const { return blows_; }

private:
  faults& add(const chance& x);

  std::vector<killing> kills_;
  std::vector<chance> chances_;
  std::vector<blow> blows_;
};

/// Fault injector that draws the faults of a plan with one seed, and counts
/// them: a test of a fault asserts that it occurred. Used on the simulator's
/// thread only.
class fault_dice : public fault_seam {
public:
  struct counts {
    std::size_t kills = 0, drops = 0, duplicates = 0, delays = 0;
    std::size_t cuts = 0;   ///< Disconnected and partitioned processes.
    std::size_t slowed = 0; ///< Slowed processes.
    counts& operator+=(const counts& x);
  };

  fault_dice(faults plan, std::uint64_t seed);

  fate decide(const party& from, const party& to, subject what,
              std::uint64_t epoch, std::uint64_t step) override;

  /// @returns the next replica to be killed now. None: no kill is due. Each
  ///          kill of the plan is returned once.
  std::optional<std::uint32_t> victim();

  /// Sets which replicas each process hosts: process p hosts
  /// [first[p], first[p + 1]).
  void spread(std::vector<std::uint32_t> first) { first_ = std::move(first); }

  /// @returns the next network fault to be applied now. None: none is due. Each
  ///          network fault of the plan is returned once.
  std::optional<faults::blow> next_blow();

  counts fired; ///< Faults that have occurred so far.

private:
  /// State of a fault that the plan sets for a step.
  struct appointment {
    /// Number of messages after which it occurs. None: its step has not begun.
    std::optional<std::size_t> due;
    bool kept = false; ///< It has occurred.
  };
  void look(appointment& x, bool spoken);
  bool comes(appointment& x) const;
  bool is_in(const party& x, std::uint32_t process) const;
  bool happens(double chance);

  faults plan_;
  std::vector<appointment> deaths_, blows_; ///< In the order of the plan.
  std::vector<std::uint32_t>
    first_;                  ///< See `set_placement`. Empty: one process.
  std::size_t messages_ = 0; ///< Number of messages so far.
  std::mt19937_64 rng_;
};

} // namespace troupe::simulation
