#pragma once

#include "troupe/actors/group/group_environment.hpp"
#include "troupe/simulation/fault_plan.hpp"
#include "troupe/simulation/simulated_network.hpp"

#include <map>

namespace troupe::simulation {

/// How those wait who call crews of the simulator: they let it go on, and see
/// to it that what the plan has comes to pass. Whoever waits on a fiber parks,
/// and others let it go on.
class stepping_waiter final : public waiter {
public:
  stepping_waiter(sim& in, fault_dice* faults) : in_{in}, faults_{faults} {}

  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done,
            std::chrono::milliseconds patience) override;
  void notify() override {} // `done` is asked after every message

  /// A replica that may be killed; the sim ends all roles.
  void spawned(const party& who, const caf::actor& it);

  /// Whose connections faults end; null: there are none.
  void over(simulated_network* net) { net_ = net; }

  /// @returns false if nothing can happen any more.
  bool go_on();

  /// Makes those who are parked give up: nothing comes any more.
  void give_up(bool now) { hopeless_ = now; }

private:
  sim& in_;
  fault_dice* faults_;
  simulated_network* net_ = nullptr;
  bool hopeless_ = false;
  std::map<std::uint32_t, caf::actor_addr> replicas_;
};

/// Where a simulated crew lives.
crew_place place_in(sim& in, const std::shared_ptr<stepping_waiter>& waits,
                    fault_dice* faults);

} // namespace troupe::simulation
