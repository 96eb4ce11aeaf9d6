#include "troupe/training/job/job_placement.hpp"

#include "troupe/tensors/device.hpp"
#include "troupe/training/job/job_resolution.hpp"
#include "troupe/training/strategies/devices.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace troupe {

namespace {

constexpr auto reject = reject_option;

device parse_device_option(const std::string& name) {
  try {
    return parse_device(name);
  } catch (const std::invalid_argument& e) {
    reject("--devices", name, e.what());
  }
}

void check_devices(const std::vector<std::string>& names) {
  if (names.size() > train_option_limits::replicas)
    reject("--devices", std::to_string(names.size()) + " devices",
           "at most " + std::to_string(train_option_limits::replicas));
  std::vector<device> seen;
  for (const auto& name : names) {
    const auto one = parse_device_option(name);
    if (std::ranges::find(seen, one) != seen.end())
      reject(
        "--devices", name,
        "a device is named twice; name each device once, as in cpu:0,cpu:1");
    seen.push_back(one);
  }
  const auto why = why_not_together(seen);
  if (why.empty())
    return;
  std::string list;
  for (const auto& name : names)
    list += (list.empty() ? "" : ",") + name;
  reject("--devices", list, why);
}

std::string implied_strategy(const train_options& options) {
  if (options.workers)
    return "multi_worker_mirrored";
  if (options.devices && options.devices->size() > 1)
    return "mirrored";
  if ((options.replicas && *options.replicas > 1) || options.devices)
    return "one_device";
  return "default";
}

/// Selects the devices cpu:0, cpu:1, ... if the options name no device.
void name_devices(const train_options& options, std::uint64_t count,
                  train_config& out) {
  for (std::uint64_t i = 0; out.devices.size() < count && !options.devices; ++i)
    out.devices.push_back("cpu:" + std::to_string(i));
}

// Each of the next four functions resolves the options of one strategy. Its
// argument `replicas` is the value of --replicas. Zero: not given.

void resolve_mirrored(const train_options& options, std::uint64_t replicas,
                      train_config& out) {
  const auto count = std::to_string(replicas);
  if (out.devices.empty() && replicas == 0)
    reject("--strategy", "mirrored",
           "name its devices, as in --devices cpu:0,cpu:1");
  name_devices(options, replicas, out);
  if (replicas > 0 && replicas != out.devices.size())
    reject("--replicas", count,
           "mirrored has one replica on each of its "
             + std::to_string(out.devices.size())
             + " devices; leave --replicas out, or name " + count + " devices");
  out.replicas = static_cast<std::uint32_t>(out.devices.size());
}

void resolve_one_device(std::uint64_t replicas, train_config& out) {
  if (out.devices.size() > 1)
    reject("--devices", std::to_string(out.devices.size()) + " devices",
           "one_device has one device; use --strategy mirrored for several");
  if (out.devices.empty())
    out.devices = {"cpu:0"};
  out.replicas =
    static_cast<std::uint32_t>(std::max<std::uint64_t>(replicas, 1));
}

void resolve_default(std::uint64_t replicas, train_config& out) {
  if (replicas > 1)
    reject("--replicas", std::to_string(replicas),
           "the default strategy has one replica; use --strategy one_device");
  if (!out.devices.empty() && out.devices != std::vector<std::string>{"cpu:0"})
    reject("--devices", out.devices.front(),
           "the default strategy computes on cpu:0; use --strategy "
           "one_device or mirrored");
  out.devices = {"cpu:0"};
  out.replicas = 1;
}

void resolve_workers(const train_options& options, std::uint64_t replicas,
                     train_config& out) {
  const auto workers = check_positive("--workers", options.workers.value_or(1),
                                      train_option_limits::workers);
  const auto workers_text = std::to_string(workers) + " workers";
  if (replicas == 0)
    replicas = workers * std::max<std::uint64_t>(out.devices.size(), 1);
  if (replicas % workers != 0)
    reject("--replicas", std::to_string(replicas),
           "each of " + workers_text + " has equally many; give a multiple of "
             + std::to_string(workers));
  name_devices(options, replicas / workers, out);
  if (replicas / workers != out.devices.size())
    reject("--replicas", std::to_string(replicas),
           workers_text + " with " + std::to_string(out.devices.size())
             + " devices each have "
             + std::to_string(workers * out.devices.size())
             + "; leave --replicas or --devices out");
  if (replicas > train_option_limits::replicas)
    reject("--devices", std::to_string(out.devices.size()) + " devices",
           "this results in " + std::to_string(replicas) + " replicas on "
             + workers_text + "; the maximum is "
             + std::to_string(train_option_limits::replicas));
  out.replicas = static_cast<std::uint32_t>(replicas);
  out.workers = static_cast<std::uint32_t>(workers);
}

} // namespace

void resolve_placement(const train_options& options, train_config& out) {
  out.strategy = options.strategy.value_or(implied_strategy(options));
  if (options.devices && options.devices->empty())
    reject("--devices", "\"\"", "name at least one, as in cpu:0");
  out.devices = options.devices.value_or(std::vector<std::string>{});
  check_devices(out.devices);
  const auto replicas = options.replicas
                          ? check_positive("--replicas", *options.replicas,
                                           train_option_limits::replicas)
                          : 0;
  constexpr std::array transports{"auto", "shm", "tcp", "tls"};
  out.transport = options.transport.value_or("auto");
  if (std::ranges::find(transports, out.transport) == transports.end())
    reject("--transport", "\"" + out.transport + "\"",
           "give auto, shm, tcp or tls");
  const bool is_multi_worker = out.strategy == "multi_worker_mirrored";
  if (options.workers && !is_multi_worker)
    reject(
      "--workers", std::to_string(*options.workers),
      "the " + out.strategy
        + " strategy has one worker; use --strategy multi_worker_mirrored");
  if (options.transport && !is_multi_worker)
    reject("--transport", out.transport,
           "it applies to tensors between workers; give --workers too");
  if (is_multi_worker)
    resolve_workers(options, replicas, out);
  else if (out.strategy == "mirrored")
    resolve_mirrored(options, replicas, out);
  else if (out.strategy == "one_device")
    resolve_one_device(replicas, out);
  else if (out.strategy == "default")
    resolve_default(replicas, out);
  else
    reject("--strategy", "\"" + out.strategy + "\"",
           "give default, one_device, mirrored or multi_worker_mirrored");
}

} // namespace troupe
