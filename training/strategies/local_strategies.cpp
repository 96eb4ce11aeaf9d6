#include "troupe/training/strategies/local_strategies.hpp"

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/training/strategies/devices.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <stdexcept>

namespace troupe {

namespace {

std::shared_ptr<strategy_state> on_one_device(std::string name,
                                              const device& where,
                                              const one_device_options& given) {
  check_threads(given.threads);
  if (given.replicas < 1)
    throw std::invalid_argument("replicas: 0 is not a number of replicas; give "
                                "1 or more");
  crew_options options;
  options.replicas = given.replicas;
  options.threads = given.threads;
  auto state = state_over(make_inline_crew(options), std::move(name), {where},
                          given.threads);
  state->copies = 1; // Replicas take turns with one copy.
  return state;
}

std::shared_ptr<strategy_state>
on_several_devices(runtime& on, const std::vector<std::string>& devices,
                   const mirrored_options& given) {
  check_threads(given.threads);
  auto parsed = parse_devices(devices);
  crew_options options;
  options.replicas = static_cast<std::uint32_t>(devices.size());
  options.threads = given.threads;
  options.patience = given.patience;
  return state_over(make_crew(on, options), "mirrored", std::move(parsed),
                    given.threads);
}

/// Returns the default strategy of this thread. Each thread has one, so that
/// threads can train models independently.
const std::shared_ptr<strategy_state>& default_state() {
  static thread_local const auto one = [] {
    auto state = on_one_device("default", device{}, {});
    state->is_default = true;
    return state;
  }();
  return one;
}

} // namespace

default_strategy::default_strategy() : strategy{default_state()} {}

one_device_strategy::one_device_strategy(const std::string& device,
                                         const one_device_options& options)
  : strategy{on_one_device("one_device", parse_device(device), options)} {}

mirrored_strategy::mirrored_strategy(runtime& on,
                                     const std::vector<std::string>& devices,
                                     const mirrored_options& options)
  : strategy{on_several_devices(on, devices, options)} {}

} // namespace troupe
