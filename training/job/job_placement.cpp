#include "troupe/tensors/device.hpp"
#include "troupe/training/job/job_resolution.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace troupe {

namespace {

constexpr auto refuse = refuse_option;

device device_of(const std::string& name) {
  try {
    return parse_device(name);
  } catch (const std::invalid_argument& e) {
    refuse("--devices", name, e.what());
  }
}

void check_devices(const std::vector<std::string>& names) {
  if (names.size() > job_limits::replicas)
    refuse("--devices", std::to_string(names.size()) + " devices",
           "at most " + std::to_string(job_limits::replicas));
  std::vector<device> seen;
  for (const auto& name : names) {
    const auto one = device_of(name);
    if (std::ranges::find(seen, one) != seen.end())
      refuse(
        "--devices", name,
        "a device is named twice; name each device once, as in cpu:0,cpu:1");
    seen.push_back(one);
  }
}

std::string implied_strategy(const job& x) {
  if (x.workers)
    return "multi_worker_mirrored";
  if (x.devices && x.devices->size() > 1)
    return "mirrored";
  if ((x.replicas && *x.replicas > 1) || x.devices)
    return "one_device";
  return "default";
}

/// Names cpu:0, cpu:1, ... if no device was named.
void name_devices(const job& x, std::uint64_t count, settled_job& out) {
  for (std::uint64_t i = 0; out.devices.size() < count && !x.devices; ++i)
    out.devices.push_back("cpu:" + std::to_string(i));
}

// One function per strategy; `replicas` is 0 if the option was not given.

void settle_mirrored(const job& x, std::uint64_t replicas, settled_job& out) {
  const auto count = std::to_string(replicas);
  if (out.devices.empty() && replicas == 0)
    refuse("--strategy", "mirrored",
           "name its devices, as in --devices cpu:0,cpu:1");
  name_devices(x, replicas, out);
  if (replicas > 0 && replicas != out.devices.size())
    refuse("--replicas", count,
           "mirrored has one replica on each of its "
             + std::to_string(out.devices.size())
             + " devices; leave --replicas out, or name " + count + " devices");
  out.replicas = static_cast<std::uint32_t>(out.devices.size());
}

void settle_one_device(std::uint64_t replicas, settled_job& out) {
  if (out.devices.size() > 1)
    refuse("--devices", std::to_string(out.devices.size()) + " devices",
           "one_device has one device; use --strategy mirrored for several");
  if (out.devices.empty())
    out.devices = {"cpu:0"};
  out.replicas =
    static_cast<std::uint32_t>(std::max<std::uint64_t>(replicas, 1));
}

void settle_default(std::uint64_t replicas, settled_job& out) {
  if (replicas > 1)
    refuse("--replicas", std::to_string(replicas),
           "the default strategy has one replica; use --strategy one_device");
  if (!out.devices.empty() && out.devices != std::vector<std::string>{"cpu:0"})
    refuse("--devices", out.devices.front(),
           "the default strategy computes on cpu:0; use --strategy "
           "one_device or mirrored");
  out.devices = {"cpu:0"};
  out.replicas = 1;
}

void settle_workers(const job& x, std::uint64_t replicas, settled_job& out) {
  const auto workers =
    at_least_one("--workers", x.workers.value_or(1), job_limits::workers);
  const auto named = std::to_string(workers) + " workers";
  if (replicas == 0)
    replicas = workers * std::max<std::uint64_t>(out.devices.size(), 1);
  if (replicas % workers != 0)
    refuse("--replicas", std::to_string(replicas),
           "each of " + named + " has equally many; give a multiple of "
             + std::to_string(workers));
  name_devices(x, replicas / workers, out);
  if (replicas / workers != out.devices.size())
    refuse("--replicas", std::to_string(replicas),
           named + " with " + std::to_string(out.devices.size())
             + " devices each have "
             + std::to_string(workers * out.devices.size())
             + "; leave --replicas or --devices out");
  if (replicas > job_limits::replicas)
    refuse("--devices", std::to_string(out.devices.size()) + " devices",
           "this results in " + std::to_string(replicas) + " replicas on "
             + named + "; the maximum is "
             + std::to_string(job_limits::replicas));
  out.replicas = static_cast<std::uint32_t>(replicas);
  out.workers = static_cast<std::uint32_t>(workers);
}

} // namespace

void settle_where(const job& x, settled_job& out) {
  out.strategy = x.strategy.value_or(implied_strategy(x));
  if (x.devices && x.devices->empty())
    refuse("--devices", "\"\"", "name at least one, as in cpu:0");
  out.devices = x.devices.value_or(std::vector<std::string>{});
  check_devices(out.devices);
  const auto replicas =
    x.replicas ? at_least_one("--replicas", *x.replicas, job_limits::replicas)
               : 0;
  constexpr std::array transports{"auto", "shm", "tcp", "tls"};
  out.transport = x.transport.value_or("auto");
  if (std::ranges::find(transports, out.transport) == transports.end())
    refuse("--transport", "\"" + out.transport + "\"",
           "give auto, shm, tcp or tls");
  const bool over_workers = out.strategy == "multi_worker_mirrored";
  if (x.workers && !over_workers)
    refuse(
      "--workers", std::to_string(*x.workers),
      "the " + out.strategy
        + " strategy has one worker; use --strategy multi_worker_mirrored");
  if (x.transport && !over_workers)
    refuse("--transport", out.transport,
           "it applies to tensors between workers; give --workers too");
  if (over_workers)
    settle_workers(x, replicas, out);
  else if (out.strategy == "mirrored")
    settle_mirrored(x, replicas, out);
  else if (out.strategy == "one_device")
    settle_one_device(replicas, out);
  else if (out.strategy == "default")
    settle_default(replicas, out);
  else
    refuse("--strategy", "\"" + out.strategy + "\"",
           "give default, one_device, mirrored or multi_worker_mirrored");
}

} // namespace troupe
