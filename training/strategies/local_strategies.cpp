#include "troupe/training/strategies/local_strategies.hpp"

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/group/respawning_group.hpp"
#include "troupe/training/strategies/devices.hpp"
#include "troupe/training/strategies/job_failure.hpp"
#include "troupe/training/strategies/run_steps.hpp"
#include "troupe/training/strategies/strategy_state.hpp"

#include <stdexcept>

namespace troupe {

namespace {

std::shared_ptr<strategy_state>
make_one_device_state(std::string name, const device& target,
                      const one_device_options& options) {
  check_threads(options.threads);
  if (options.replicas < 1)
    throw std::invalid_argument("replicas: 0 is not a number of replicas; give "
                                "1 or more");
  replica_group_options group_options;
  group_options.replicas = options.replicas;
  group_options.threads = options.threads;
  group_options.recorder = make_local_recorder();
  auto state = make_strategy_state(make_sequential_group(group_options),
                                   std::move(name), {target}, options.threads);
  state->recorder = group_options.recorder;
  return state;
}

std::shared_ptr<strategy_state>
make_mirrored_state(runtime& local_runtime,
                    const std::vector<std::string>& devices,
                    const mirrored_options& options) {
  check_threads(options.threads);
  auto parsed = parse_devices(devices);
  replica_group_options group_options;
  group_options.replicas = static_cast<std::uint32_t>(devices.size());
  group_options.threads = options.threads;
  group_options.step_timeout = options.step_timeout;
  group_options.recorder = make_local_recorder();
  auto state = make_strategy_state(
    make_respawning_group([&local_runtime, group_options] {
      return make_replica_group(local_runtime, group_options);
    }),
    "mirrored", std::move(parsed), options.threads);
  state->recorder = group_options.recorder;
  return state;
}

/// Returns the default strategy of this thread. Each thread has its own default
/// strategy, so that threads can train models independently.
const std::shared_ptr<strategy_state>& default_state() {
  static thread_local const auto instance = [] {
    auto state = make_one_device_state("default", device{}, {});
    state->is_default = true;
    return state;
  }();
  return instance;
}

} // namespace

default_strategy::default_strategy() : strategy{default_state()} {}

one_device_strategy::one_device_strategy(const std::string& device,
                                         const one_device_options& options)
  : strategy{
    make_one_device_state("one_device", parse_device(device), options)} {}

mirrored_strategy::mirrored_strategy(runtime& local_runtime,
                                     const std::vector<std::string>& devices,
                                     const mirrored_options& options)
  : strategy{make_mirrored_state(local_runtime, devices, options)} {}

} // namespace troupe
