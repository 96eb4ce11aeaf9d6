#include "troupe/simulation/strategy.hpp"

#include "troupe/training/strategy_state.hpp"

namespace troupe::simulation {

strategy make_strategy(sim& in, const crew_options& options,
                       fault_dice* faults) {
  std::vector<device> devices;
  for (std::uint32_t r = 0; r < options.replicas; ++r)
    devices.push_back({device_kind::cpu, r});
  return strategy{state_over(make_crew(in, options, faults), "mirrored",
                             std::move(devices), options.threads)};
}

} // namespace troupe::simulation
