#include "troupe/benchmarks/fit_runner.hpp"

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/workload.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>

namespace troupe::benchmarks {

namespace {

/// How often the batches are repeated: often enough that they do not end during
/// a measurement.
constexpr std::uint64_t epochs = std::uint64_t{1} << 40;

strategy make_strategy(const run_config& config,
                       std::unique_ptr<runtime>& created_runtime) {
  if (config.strategy == "default" && config.replicas == 1
      && config.threads == 1 && config.device == "cpu:0")
    return default_strategy{};
  if (config.strategy == "default" || config.strategy == "one_device")
    return one_device_strategy{
      config.device, {.replicas = config.replicas, .threads = config.threads}};
  if (config.strategy != "mirrored")
    throw std::invalid_argument("no benchmark with strategy '" + config.strategy
                                + "'; use default, one_device or "
                                  "mirrored");
  created_runtime = std::make_unique<runtime>();
  std::vector<std::string> devices;
  for (std::uint32_t i = 0; i < config.replicas; ++i)
    devices.push_back("cpu:" + std::to_string(i));
  return mirrored_strategy{
    *created_runtime, devices, {.threads = config.threads}};
}

} // namespace

fit_runner::fit_runner(const std::string& name, std::uint64_t batch,
                       const run_config& config) {
  begin(name, batch, make_strategy(config, runtime_), config);
}

fit_runner::fit_runner(const std::string& name, std::uint64_t batch,
                       const strategy& chosen) {
  begin(name, batch, chosen);
}

void fit_runner::begin(const std::string& name, std::uint64_t batch,
                       const strategy& chosen, const run_config& config) {
  graph_ = config.graph ? graph_capture::on : graph_capture::off;
  const auto& on = chosen.devices().front();
  batches_ =
    synthetic_batches(
      find_workload(name), batch * chosen.num_replicas_in_sync(),
      on.kind == device_kind::cpu || config.host_batches ? device{} : on)
      .repeat(epochs);
  std::optional<strategy_scope> scope;
  if (chosen.name() != "default")
    scope.emplace(chosen.scope());
  model_ = std::make_unique<model>(
    description_of(find_workload(name)), rule_for(find_workload(name), batch),
    model_options{.loss = find_workload(name).loss,
                  .precision = config.precision});
}

fit_runner::~fit_runner() = default;

void fit_runner::fit(const std::function<bool(std::uint64_t)>& continue_after) {
  std::atomic<bool> stop{false};
  std::uint64_t done = 0;
  fit_options options;
  options.stop = &stop;
  options.audit_steps = audit_steps_;
  options.graph = graph_;
  options.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.repeated)
      return;
    last_loss_ = x.loss;
    if (!stop && !continue_after(++done))
      stop = true;
  }});
  model_->fit(*batches_, options);
}

std::vector<double> fit_runner::time(const timing_windows& windows) {
  // The first call of `fit` estimates the time of a step. The second call is
  // measured.
  const auto begin = clock::now();
  clock::time_point first;
  std::uint64_t steps = 0;
  fit([&](std::uint64_t step) {
    if (step == 5)
      first = clock::now();
    steps = step;
    return step < 15 || seconds_since(begin) < windows.seconds;
  });
  const auto each = seconds_since(first) / double(steps - 5);
  const auto fitting = std::max<std::uint64_t>(
    5, static_cast<std::uint64_t>(windows.seconds / each));
  return time(windows.count, fitting, fitting);
}

void fit_runner::run_follower() {
  for (int fits = 0; fits < 2; ++fits)
    fit([](std::uint64_t) { return true; });
}

std::vector<double> fit_runner::time(int windows, std::uint64_t steps,
                                     std::uint64_t warm_up) {
  std::vector<double> out;
  clock::time_point start;
  fit([&](std::uint64_t step) {
    if (step < warm_up || (step - warm_up) % steps != 0)
      return true;
    const auto now = clock::now();
    if (step > warm_up)
      out.push_back(std::chrono::duration<double>(now - start).count()
                    / double(steps));
    start = now;
    return out.size() < std::size_t(windows);
  });
  return out;
}

} // namespace troupe::benchmarks
