#pragma once

#include "troupe/actors/group/group_environment.hpp"
#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <map>

namespace troupe::simulation {

/// Wait strategy for callers of simulated replica groups. While a caller waits,
/// `wait` runs the simulator and applies the kills and network faults that are
/// due. On a fiber, `wait` parks the fiber instead; the code that resumes the
/// fibers runs the simulator.
class simulated_wait_strategy final : public wait_strategy {
public:
  simulated_wait_strategy(simulator& sim, random_fault_injector* faults)
    : sim_{sim}, faults_{faults} {}

  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done,
            std::chrono::milliseconds timeout) override;
  void notify() override {} // `wait` calls `done` after every message

  /// Registers a spawned role: the simulator owns it, and faults may kill it if
  /// it is a replica.
  void register_role(const role_id& role, const caf::actor& handle);

  /// Sets the network to which network faults are applied. Null: none.
  void set_network(simulated_network* net) { net_ = net; }

  /// Applies the faults that are due, then delivers one message or moves the
  /// clock to the next timer.
  /// @returns false if there is neither a message nor a timer.
  bool step();

  /// While `abandoned` is true, each wait ends when its fiber is resumed, even
  /// if its condition does not hold. To be set when no message and no timer is
  /// left.
  void abandon_waits(bool abandoned) { abandoned_ = abandoned; }

private:
  simulator& sim_;
  random_fault_injector* faults_;
  simulated_network* net_ = nullptr;
  bool abandoned_ = false;
  std::map<std::uint32_t, caf::actor_addr> replicas_;
};

/// Makes the environment of a simulated replica group.
/// @param faults fault injector for the roles' messages; null: none.
group_environment
simulated_environment(simulator& sim,
                      const std::shared_ptr<simulated_wait_strategy>& waits,
                      random_fault_injector* faults);

} // namespace troupe::simulation
