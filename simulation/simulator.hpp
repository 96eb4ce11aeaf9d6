#pragma once

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/runtime/config.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace troupe::simulation {

/// A whole job on one thread: one message per `step`, a clock that moves only
/// when told to or when nothing else can happen, and a schedule that is a pure
/// function of the seed.
class sim {
public:
  explicit sim(std::uint64_t seed = 0);

  /// Ends whatever it spawned and lets pending timers run out. An actor still
  /// alive then ends the program: CAF would hang.
  ~sim();
  sim(const sim&) = delete;
  sim& operator=(const sim&) = delete;

  /// Spawns `role` on the simulator's thread; the sim ends it.
  template <class F, class... Args>
  auto spawn(F role, Args&&... args) {
    auto it =
      troupe::spawn(sys, threads::shared, role, std::forward<Args>(args)...);
    ends(it);
    return it;
  }

  /// Makes the sim end an actor that others spawned.
  template <class Handle>
  void ends(const Handle& it) {
    spawned_.push_back(caf::actor_cast<caf::actor_addr>(it));
  }

  /// A number that is a function of the seed and of what happened so far.
  std::uint64_t draw() { return rng_(); }

  /// Delivers one message to a randomly chosen ready actor.
  /// @returns false if nobody has mail.
  bool step();

  /// Delivers until nobody has mail, or `limit` messages.
  void settle(std::size_t limit = 1'000'000);

  /// Moves the clock by `by` in steps of `grain`, settling after each: timers
  /// fire in order, and those that re-arm fire again.
  void advance(caf::timespan by,
               caf::timespan grain = std::chrono::milliseconds{100});

  /// Delivers one message or, if nobody has mail, moves the clock to the next
  /// timer.
  /// @returns false if nothing can happen any more.
  bool next();

  /// Lets things happen until `done` holds.
  /// @returns false if it never will: nothing can happen any more.
  bool run_until(const std::function<bool()>& done);

  /// Since the beginning, on the virtual clock.
  caf::timespan elapsed() const;

private:
  std::mt19937_64 rng_;
  std::vector<caf::actor_addr> spawned_;

public:
  config cfg;
  caf::actor_system sys;
  caf::scheduler::test_coordinator& sched;
  std::size_t delivered = 0; ///< Messages so far.
};

} // namespace troupe::simulation
