#pragma once

#include "troupe/actors/group/group_environment.hpp"
#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <map>

namespace troupe::simulation {

/// Wait strategy for callers of simulated replica groups. While a caller waits
/// it runs the simulator and applies the kills and network faults that are due.
/// A caller on a fiber parks instead: the code that resumes the fibers runs the
/// simulator.
class stepping_waiter final : public waiter {
public:
  stepping_waiter(sim& in, fault_dice* faults) : in_{in}, faults_{faults} {}

  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done,
            std::chrono::milliseconds patience) override;
  void notify() override {} // `wait` calls `done` after every message

  /// Registers a spawned role: the simulator owns it, and faults may kill it if
  /// it is a replica.
  void spawned(const party& who, const caf::actor& it);

  /// Sets the network that network faults act on. Null: none.
  void over(simulated_network* net) { net_ = net; }

  /// Applies the faults that are due, then delivers one message or moves the
  /// clock to the next timer.
  /// @returns false if there is neither a message nor a timer.
  bool go_on();

  /// While set, parked callers give up their waits when they are resumed: no
  /// message and no timer is left.
  void give_up(bool now) { hopeless_ = now; }

private:
  sim& in_;
  fault_dice* faults_;
  simulated_network* net_ = nullptr;
  bool hopeless_ = false;
  std::map<std::uint32_t, caf::actor_addr> replicas_;
};

/// Makes the environment of a simulated replica group.
/// @param faults see `make_replica_group`.
crew_place place_in(sim& in, const std::shared_ptr<stepping_waiter>& waits,
                    fault_dice* faults);

} // namespace troupe::simulation
