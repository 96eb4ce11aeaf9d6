#include "troupe/training/strategies/local_strategies.hpp"

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/local_group.hpp"
#include "troupe/training/strategies/replica/devices.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

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

/// Makes the state of a strategy with one replica on each device.
std::shared_ptr<strategy_state>
make_actor_state(runtime& local_runtime, std::string name,
                 std::vector<device> devices, int threads,
                 std::chrono::milliseconds step_timeout,
                 device_sum_options sums = {}) {
  check_threads(threads);
  replica_group_options group_options;
  group_options.replicas = static_cast<std::uint32_t>(devices.size());
  group_options.threads = threads;
  group_options.step_timeout = step_timeout;
  group_options.recorder = make_local_recorder();
  auto state = make_strategy_state(
    make_local_group(local_runtime, group_options, std::move(sums)),
    std::move(name), std::move(devices), threads);
  state->recorder = group_options.recorder;
  return state;
}

std::shared_ptr<strategy_state>
make_mirrored_state(runtime& local_runtime,
                    const std::vector<std::string>& names,
                    const mirrored_options& options) {
  auto devices = parse_devices(names);
  auto sums =
    local_device_sums(options.collectives, devices, options.nccl_device);
  return make_actor_state(local_runtime, "mirrored", std::move(devices),
                          options.threads, options.step_timeout,
                          std::move(sums));
}

/// @errors throws std::invalid_argument unless replicas on these devices can
///         read their variables on the parameter device.
void check_parameter_device(const std::string& name,
                            const std::vector<device>& devices) {
  const auto& compute = devices.front();
  device on;
  try {
    on = parse_device(name);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(std::string{"parameter_device: "} + e.what());
  }
  // All CPU devices share the memory of the host.
  const bool is_readable =
    on == compute
    || (on.kind == device_kind::cpu && compute.kind == device_kind::cpu);
  if (!is_readable)
    throw std::invalid_argument(
      "parameter_device: " + name
      + " cannot store the variables of replicas on " + to_string(compute)
      + ", which read them in the memory of their own device; leave it out, or "
        "give "
      + to_string(compute));
}

std::shared_ptr<strategy_state>
make_central_storage_state(runtime& local_runtime,
                           const std::vector<std::string>& names,
                           const central_storage_options& options) {
  auto devices = parse_devices(names);
  if (devices.size() > 1 && devices.front().kind != device_kind::cpu)
    throw std::invalid_argument(
      "devices: central_storage stores the variables on one device, which "
      + to_string(devices[1]) + " cannot read on " + to_string(devices[0])
      + "; use mirrored, where each device has a copy, or name one device");
  if (!options.parameter_device.empty())
    check_parameter_device(options.parameter_device, devices);
  // In a job of one process, the replicas share one copy of the variables,
  // which is on the devices of `strategy_state::tensor_device`.
  return make_actor_state(local_runtime, "central_storage", std::move(devices),
                          options.threads, options.step_timeout);
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

central_storage_strategy::central_storage_strategy(
  runtime& local_runtime, const std::vector<std::string>& devices,
  const central_storage_options& options)
  : strategy{make_central_storage_state(local_runtime, devices, options)} {}

} // namespace troupe
