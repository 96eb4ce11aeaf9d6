#pragma once

#include "troupe/actors/core/fault_injector.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

// Which faults a simulated job meets: described once, drawn anew for each seed.

namespace troupe::simulation {

/// A logical replica, for a fault to name.
struct replica {
  std::uint32_t id = 0;
};

/// A simulated process, likewise.
struct process {
  std::uint32_t id = 0;
};

struct at_step {
  std::uint64_t step = 0; ///< Global, from 0.
};

/// What may go wrong. Chances are of each message on its own:
///
///   faults{}.kill(replica{2}, at_step{17}).drop(replica{0}, 0.01).delay(0.1)
class faults {
public:
  using duration = std::chrono::nanoseconds;

  /// Ends the replica's actor once, a few messages after it first spoke in the
  /// step.
  faults& kill(replica who, at_step when);

  /// Loses messages, of all or to and from one replica.
  faults& drop(double chance);
  faults& drop(replica who, double chance);

  /// Delivers messages twice.
  faults& duplicate(double chance);
  faults& duplicate(replica who, double chance);

  /// Holds messages back for up to `longest`; those behind it pass by.
  faults& delay(double chance,
                duration longest = std::chrono::milliseconds{100});
  faults& delay(replica who, double chance,
                duration longest = std::chrono::milliseconds{100});

  /// Ends all connections of a process, a few messages after one of its
  /// replicas first spoke in the step: both sides are told.
  faults& cut(process who, at_step when);

  /// The same, and nobody is told: no side hears anything of the other.
  faults& isolate(process who, at_step when);

  /// From then on all that goes in or out of the process takes so many times
  /// as long.
  faults& slow(process who, at_step when, double times);

  struct killing {
    std::uint32_t who;
    std::uint64_t step;
  };
  /// What becomes of a process's connections.
  struct blow {
    enum class kind { cut, isolate, slow } what;
    std::uint32_t who;
    std::uint64_t step;
    double times = 1;
  };
  enum class kind { drop, duplicate, delay };
  struct chance {
    kind what;
    std::optional<std::uint32_t> who; ///< None: all.
    double of;                        ///< In [0, 1].
    duration longest;
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

/// The faults that one seed draws, and how many came to pass: a test that meant
/// to see a fault asserts that it did. Used on the simulator's thread.
class fault_dice : public fault_seam {
public:
  struct counts {
    std::size_t kills = 0, drops = 0, duplicates = 0, delays = 0;
    std::size_t cuts = 0; ///< Or isolations.
    std::size_t slowed = 0;
    counts& operator+=(const counts& x);
  };

  fault_dice(faults plan, std::uint64_t seed);

  fate decide(const party& from, const party& to, subject what,
              std::uint64_t epoch, std::uint64_t step) override;

  /// The replica that is to die now, if any: each that the plan names once, a
  /// few messages after it first spoke in its step.
  std::optional<std::uint32_t> victim();

  /// Says which replicas a process holds: [first[p], first[p + 1]).
  void spread(std::vector<std::uint32_t> first) { first_ = std::move(first); }

  /// What is to become of a process's connections now, if anything.
  std::optional<faults::blow> next_blow();

  counts fired;

private:
  /// When something that the plan names comes to pass.
  struct appointment {
    std::optional<std::size_t> due; ///< In messages; none: not yet there.
    bool kept = false;
  };
  void look(appointment& x, bool spoken);
  bool comes(appointment& x) const;
  bool is_in(const party& x, std::uint32_t process) const;
  bool happens(double chance);

  faults plan_;
  std::vector<appointment> deaths_, blows_; ///< As the plan has them.
  std::vector<std::uint32_t> first_;
  std::size_t messages_ = 0; ///< Seen so far.
  std::mt19937_64 rng_;
};

} // namespace troupe::simulation
