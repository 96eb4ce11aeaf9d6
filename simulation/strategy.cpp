#include "troupe/simulation/strategy.hpp"

#include "troupe/training/strategy_state.hpp"

namespace troupe::simulation {

strategy make_strategy(sim& in, const job_setup& setup, fault_dice* faults) {
  std::vector<device> devices;
  for (std::uint32_t r = 0; r < setup.replicas; ++r)
    devices.push_back({device_kind::cpu, r});
  return strategy{state_over(
    make_crew(in, setup.crew(), {setup.processes, setup.network}, faults),
    "mirrored", std::move(devices), setup.threads)};
}

} // namespace troupe::simulation
