#include "troupe/simulation/strategy.hpp"

#include "troupe/training/strategy_state.hpp"

namespace troupe::simulation {

strategy make_strategy(sim& in, const crew_options& options,
                       fault_dice* faults) {
  auto state = std::make_shared<strategy_state>();
  state->name = "mirrored";
  for (std::uint32_t r = 0; r < options.replicas; ++r)
    state->devices.push_back({device_kind::cpu, r});
  state->replicas = state->copies = options.replicas;
  state->threads = options.threads;
  state->members = make_crew(in, options, faults);
  return strategy{std::move(state)};
}

} // namespace troupe::simulation
