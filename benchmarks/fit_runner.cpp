#include "troupe/benchmarks/fit_runner.hpp"

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/workload.hpp"
#include "troupe/models/zoo.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>

namespace troupe::benchmarks {

namespace {

/// Large enough that an epoch does not end while it is timed.
constexpr std::uint64_t passes = std::uint64_t{1} << 40;

strategy make(const placement& where, std::unique_ptr<runtime>& made) {
  if (where.strategy == "default" && where.replicas == 1 && where.threads == 1)
    return default_strategy{};
  if (where.strategy == "default" || where.strategy == "one_device")
    return one_device_strategy{
      "cpu:0", {.replicas = where.replicas, .threads = where.threads}};
  if (where.strategy != "mirrored")
    throw std::invalid_argument("no benchmark with strategy '" + where.strategy
                                + "'; use default, one_device or "
                                  "mirrored");
  made = std::make_unique<runtime>();
  std::vector<std::string> devices;
  for (std::uint32_t i = 0; i < where.replicas; ++i)
    devices.push_back("cpu:" + std::to_string(i));
  return mirrored_strategy{*made, devices, {.threads = where.threads}};
}

} // namespace

fitted::fitted(const std::string& name, std::uint64_t batch,
               const placement& where) {
  begin(name, batch, make(where, runtime_));
}

fitted::fitted(const std::string& name, std::uint64_t batch,
               const strategy& in) {
  begin(name, batch, in);
}

void fitted::begin(const std::string& name, std::uint64_t batch,
                   const strategy& in) {
  batches_ =
    synthetic_batches(find_workload(name), batch * in.num_replicas_in_sync())
      .repeat(passes);
  std::optional<strategy_scope> scope;
  if (in.name() != "default")
    scope.emplace(in.scope());
  model_ = std::make_unique<model>(models::find(name),
                                   rule_for(find_workload(name), batch));
}

fitted::~fitted() = default;

void fitted::fit(const std::function<bool(std::uint64_t)>& go_on) {
  std::atomic<bool> stop{false};
  std::uint64_t done = 0;
  fit_options options;
  options.stop = &stop;
  options.callbacks.push_back({.on_step = [&](const step_record& x) {
    last_loss_ = x.loss;
    if (!stop && !go_on(++done))
      stop = true;
  }});
  model_->fit(*batches_, options);
}

std::vector<double> fitted::time(const windows& how) {
  // The first fit estimates the time of a step; the second one is measured.
  const auto begin = clock::now();
  clock::time_point first;
  std::uint64_t steps = 0;
  fit([&](std::uint64_t step) {
    if (step == 5)
      first = clock::now();
    steps = step;
    return step < 15 || seconds_since(begin) < how.seconds;
  });
  const auto each = seconds_since(first) / double(steps - 5);
  const auto fitting =
    std::max<std::uint64_t>(5, static_cast<std::uint64_t>(how.seconds / each));
  return time(how.count, fitting, fitting);
}

void fitted::follow() {
  for (int fits = 0; fits < 2; ++fits)
    fit([](std::uint64_t) { return true; });
}

std::vector<double> fitted::time(int windows, std::uint64_t steps,
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
