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

/// Deterministic scheduler and virtual clock that run a whole job on one
/// thread. Each step delivers one message. The clock moves only on request, or
/// when no message is left. The schedule is a pure function of the seed.
class simulator {
public:
  explicit simulator(std::uint64_t seed = 0);

  /// Kills all actors that the simulator owns, and lets pending timers expire.
  /// Aborts the program if an actor is still alive afterwards, because the
  /// destructor of CAF's actor system would wait for it forever.
  ~simulator();
  simulator(const simulator&) = delete;
  simulator& operator=(const simulator&) = delete;

  /// Spawns a role on the simulator's thread. The simulator owns it.
  template <class F, class... Args>
  auto spawn(F role, Args&&... args) {
    auto handle = troupe::spawn(sys, spawn_policy::scheduled, role,
                                std::forward<Args>(args)...);
    own(handle);
    return handle;
  }

  /// Makes the simulator own an actor that other code spawned: the destructor
  /// kills it.
  template <class Handle>
  void own(const Handle& handle) {
    spawned_.push_back(caf::actor_cast<caf::actor_addr>(handle));
  }

  /// Draws a random number. It is a function of the seed and of all earlier
  /// draws and deliveries.
  std::uint64_t draw() { return rng_(); }

  /// Sets which actors receive no messages at present, by their ids. Empty: all
  /// receive messages.
  void hold(std::function<bool(caf::actor_id)> is_held) {
    is_held_ = std::move(is_held);
  }

  /// Delivers one message to a randomly chosen ready actor.
  /// @returns false if all mailboxes of actors that are not held are empty.
  bool step();

  /// Delivers messages until all mailboxes are empty, at most `limit` of them.
  void run_until_idle(std::size_t limit = 1'000'000);

  /// Moves the clock by `duration`, in steps of `grain`, and delivers all
  /// messages after each step. Timers fire in order, and re-armed timers fire
  /// again.
  void advance(caf::timespan duration,
               caf::timespan grain = std::chrono::milliseconds{100});

  /// Delivers one message or, if all mailboxes are empty, moves the clock to
  /// the next timer.
  /// @returns false if there is neither a message nor a timer.
  bool advance_once();

  /// Delivers messages and moves the clock until `done` holds.
  /// @returns false if no message and no timer is left, but `done` does not
  ///          hold.
  bool run_until(const std::function<bool()>& done);

  /// Time since the construction, on the virtual clock.
  caf::timespan elapsed() const;

private:
  std::mt19937_64 rng_;
  std::vector<caf::actor_addr> spawned_;
  std::function<bool(caf::actor_id)> is_held_;

public:
  config cfg;
  caf::actor_system sys;
  caf::scheduler::test_coordinator& sched;
  std::size_t delivered = 0; ///< Number of messages delivered so far.
};

} // namespace troupe::simulation
