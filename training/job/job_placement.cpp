#include "troupe/training/job/job_placement.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/strategies/parameter_server/table_consistency.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/training/job/job_resolution.hpp"
#include "troupe/training/strategies/replica/devices.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe {

namespace {

/// Returns the value of --devices.
std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names)
    out += (out.empty() ? "" : ",") + name;
  return out;
}

device parse_device_option(const std::string& name) {
  try {
    return parse_device(name);
  } catch (const std::invalid_argument& e) {
    reject_option("--devices", name, e.what());
  }
}

/// Several CUDA devices are divided among the workers of a machine. All CPU
/// devices share the processors, so each worker has all of them, and so it is
/// with one CUDA device.
bool are_divided(const std::vector<device>& devices) {
  return devices.size() > 1
         && std::ranges::all_of(devices, [](const device& one) {
              return one.kind != device_kind::cpu;
            });
}

void check_devices(const std::vector<std::string>& names,
                   std::uint64_t workers) {
  if (names.size() > train_option_limits::replicas)
    reject_option("--devices", std::to_string(names.size()) + " devices",
                  "at most " + std::to_string(train_option_limits::replicas));
  std::vector<device> seen;
  for (const auto& name : names) {
    const auto one = parse_device_option(name);
    if (std::ranges::find(seen, one) != seen.end())
      reject_option(
        "--devices", name,
        "a device is named twice; name each device once, as in cpu:0,cpu:1");
    seen.push_back(one);
  }
  const auto list = list_of(names);
  if (const auto why = why_not_together(seen); !why.empty())
    reject_option("--devices", list, why);
  if (are_divided(seen) && seen.size() % workers != 0)
    reject_option(
      "--devices", list,
      std::to_string(workers)
        + " workers cannot have equally many of them; give --workers "
        + std::to_string(seen.size()) + ", or a multiple of "
        + std::to_string(workers) + " devices");
}

/// @pre `out.collectives` and `out.devices` are set.
void check_nccl_devices(const train_config& out) {
  if (out.collectives == "nccl"
      && std::ranges::any_of(out.devices, [](const std::string& name) {
           return parse_device(name).kind == device_kind::cpu;
         }))
    reject_option(
      "--collectives", out.collectives,
      "NCCL adds on CUDA devices only, and the devices are "
        + list_of(out.devices)
        + "; leave it out, or name CUDA devices, as in --devices gpu:0");
}

/// Returns the number of devices that each worker has.
std::size_t devices_of_each(const std::vector<std::string>& names,
                            std::uint64_t workers) {
  std::vector<device> devices;
  for (const auto& name : names)
    devices.push_back(parse_device(name));
  return are_divided(devices) ? names.size() / workers : names.size();
}

} // namespace

namespace {

bool names_cuda_device(const std::string& name) {
  try {
    return parse_device(name).kind == device_kind::cuda;
  } catch (const std::invalid_argument&) {
    return false; // an error is reported later
  }
}

/// True if each CUDA device gets a process of its own: there are several, and
/// the options ask for nothing else. A call of CUDA in one process can wait for
/// all of its devices.
bool has_process_per_device(const train_options& options) {
  return !options.strategy && !options.workers && options.devices
         && options.devices->size() > 1
         && std::ranges::all_of(*options.devices, names_cuda_device);
}

/// Returns the value of --workers for multi_worker_mirrored.
std::uint64_t workers_of(const train_options& options) {
  return check_positive("--workers",
                        options.workers.value_or(
                          has_process_per_device(options)
                            ? static_cast<std::int64_t>(options.devices->size())
                            : 1),
                        train_option_limits::workers);
}

} // namespace

std::string implied_strategy(const train_options& options) {
  if (options.strategy)
    return *options.strategy;
  if (options.servers || options.consistency || options.table_consistency
      || options.replication)
    return "parameter_server";
  if (options.workers || has_process_per_device(options))
    return "multi_worker_mirrored";
  if (options.devices && options.devices->size() > 1)
    return "mirrored";
  if ((options.replicas && *options.replicas > 1) || options.devices)
    return "one_device";
  return "default";
}

namespace {

/// Selects the devices cpu:0, cpu:1, ... if the options name no device.
void name_devices(const train_options& options, std::uint64_t count,
                  train_config& out) {
  for (std::uint64_t i = 0; out.devices.size() < count && !options.devices; ++i)
    out.devices.push_back("cpu:" + std::to_string(i));
}

// Each of the next four functions resolves the options of its strategies. Its
// argument `replicas` is the value of --replicas. Zero: not given.

/// Resolves the options of mirrored or central_storage.
void resolve_devices(const train_options& options, std::uint64_t replicas,
                     train_config& out) {
  const auto count = std::to_string(replicas);
  if (out.devices.empty() && replicas == 0)
    reject_option(
      "--strategy", out.strategy,
      "name its devices, as in --devices cpu:0,cpu:1, or give --replicas");
  name_devices(options, replicas, out);
  if (replicas > 0 && replicas != out.devices.size())
    reject_option("--replicas", count,
                  out.strategy + " has one replica on each of its "
                    + std::to_string(out.devices.size())
                    + " devices; leave --replicas out, or name " + count
                    + " devices");
  out.replicas = static_cast<std::uint32_t>(out.devices.size());
}

void resolve_one_device(std::uint64_t replicas, train_config& out) {
  if (out.devices.size() > 1)
    reject_option(
      "--devices", list_of(out.devices),
      "one_device has one device; use --strategy mirrored for several");
  if (out.devices.empty())
    out.devices = {"cpu:0"};
  out.replicas =
    static_cast<std::uint32_t>(std::max<std::uint64_t>(replicas, 1));
}

void resolve_default(std::uint64_t replicas, train_config& out) {
  if (replicas > 1)
    reject_option(
      "--replicas", std::to_string(replicas),
      "the default strategy has one replica; use --strategy one_device");
  if (!out.devices.empty() && out.devices != std::vector<std::string>{"cpu:0"})
    reject_option("--devices", list_of(out.devices),
                  "the default strategy computes on cpu:0; use --strategy "
                  "one_device or mirrored");
  out.devices = {"cpu:0"};
  out.replicas = 1;
}

void resolve_workers(const train_options& options, std::uint64_t replicas,
                     train_config& out) {
  const auto workers = workers_of(options);
  const auto workers_text = std::to_string(workers) + " workers";
  if (replicas == 0)
    replicas =
      workers
      * std::max<std::uint64_t>(devices_of_each(out.devices, workers), 1);
  if (replicas < workers)
    reject_option("--replicas", std::to_string(replicas),
                  "each of " + workers_text + " needs a replica; give at least "
                    + std::to_string(workers) + ", or fewer workers");
  const auto most = (replicas + workers - 1) / workers;
  name_devices(options, most, out);
  const auto each = devices_of_each(out.devices, workers);
  // CPU devices share the processors, but each CUDA device has one replica.
  const bool is_cpu = std::ranges::all_of(out.devices, [](const auto& name) {
    return parse_device(name).kind == device_kind::cpu;
  });
  if (is_cpu ? most != each : replicas != workers * each)
    reject_option("--replicas", std::to_string(replicas),
                  workers_text + " with " + std::to_string(each)
                    + (each == 1 ? " device each have " : " devices each have ")
                    + std::to_string(workers * each)
                    + "; leave --replicas or --devices out");
  if (replicas > train_option_limits::replicas)
    reject_option("--devices", std::to_string(out.devices.size()) + " devices",
                  "this results in " + std::to_string(replicas)
                    + " replicas on " + workers_text + "; the maximum is "
                    + std::to_string(train_option_limits::replicas));
  out.replicas = static_cast<std::uint32_t>(replicas);
  out.workers = static_cast<std::uint32_t>(workers);
}

/// Returns the number after a prefix. None: the text has another form.
std::optional<std::uint32_t> number_after(std::string_view text,
                                          std::string_view prefix) {
  if (!text.starts_with(prefix))
    return std::nullopt;
  text.remove_prefix(prefix.size());
  std::uint32_t number = 0;
  const auto [end, error] =
    std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

/// Reads the text of a kind of consistency. None: it has another form.
std::optional<parameter_server::consistency>
read_consistency(const std::string& text) {
  using enum parameter_server::consistency_kind;
  if (text == "async")
    return parameter_server::consistency{};
  if (text == "sync")
    return parameter_server::consistency{.kind = synchronous};
  if (const auto staleness = number_after(text, "ssp:"))
    return parameter_server::consistency{.kind = bounded,
                                         .max_staleness = *staleness};
  if (const auto backups = number_after(text, "sync-backup:"))
    return parameter_server::consistency{.kind = synchronous,
                                         .backup_workers = *backups};
  return std::nullopt;
}

/// Returns a question for the kind that may be meant by a text, and a blank.
/// Empty: no kind is similar.
std::string kind_meant_by(const std::string& text,
                          std::span<const std::string> kinds) {
  const auto meant =
    models::detail::guess(text.substr(0, text.find(':')), kinds);
  return meant.empty() ? "" : meant.substr(1) + " ";
}

/// Reads the text of --table-consistency.
/// @errors throws std::invalid_argument for another one.
parameter_server::consistency parse_table_consistency(const std::string& text) {
  const auto found = read_consistency(text);
  if (!found)
    reject_option(
      "--table-consistency", "\"" + text + "\"",
      kind_meant_by(text, std::array<std::string, 2>{"async", "ssp"})
        + "give async or ssp:S, as in ssp:2");
  return *found;
}

/// @pre the consistency of the other parameters is resolved.
void resolve_table_consistency(const train_options& options,
                               train_config& out) {
  out.table_consistency = options.table_consistency.value_or("");
  const auto of_tables = out.table_consistency_rule();
  if (of_tables
      && !allows_table_consistency(out.consistency_rule(), *of_tables))
    reject_option(
      "--table-consistency", out.table_consistency,
      "tables cannot have it with --consistency " + out.consistency
        + "; leave it out, or give async or ssp:S, with --consistency "
          "sync or sync-backup:B");
}

/// @pre the number of servers is resolved.
void resolve_replication(const train_options& options, train_config& out) {
  out.replication = static_cast<std::uint32_t>(
    check_positive("--replication", options.replication.value_or(1),
                   train_option_limits::servers));
  const auto text = std::to_string(out.replication);
  if (out.replication > out.servers)
    reject_option("--replication", text,
                  "the copies of a server need as many servers, and there are "
                    + std::to_string(out.servers) + "; give --servers " + text
                    + " or more");
}

void resolve_servers(const train_options& options, std::uint64_t replicas,
                     train_config& out) {
  out.servers = static_cast<std::uint32_t>(check_positive(
    "--servers", options.servers.value_or(1), train_option_limits::servers));
  out.workers = static_cast<std::uint32_t>(check_positive(
    "--workers", options.workers.value_or(1), train_option_limits::workers));
  resolve_replication(options, out);
  out.consistency = options.consistency.value_or("async");
  const auto rule = parse_consistency(out.consistency);
  resolve_table_consistency(options, out);
  if (!out.devices.empty() && out.devices != std::vector<std::string>{"cpu:0"})
    reject_option(
      "--devices", list_of(out.devices),
      "the workers of parameter servers compute on cpu:0; leave --devices "
      "out");
  out.devices = {"cpu:0"};
  out.replicas =
    replicas > 0 ? static_cast<std::uint32_t>(replicas) : out.workers;
  if (rule.backup_workers >= out.replicas)
    reject_option("--consistency", out.consistency,
                  "the updates need a contribution, and there are "
                    + std::to_string(out.replicas)
                    + " replicas; give fewer backup workers than replicas");
  if (options.patience)
    reject_option(
      "--patience", std::to_string(*options.patience),
      "a run with parameter servers does not stop early; leave it out");
  if (options.replica_shares)
    reject_option(
      "--replica-shares",
      std::to_string(options.replica_shares->size()) + " shares",
      "the parts of replicas are equal with parameter servers; leave it "
      "out");
}

} // namespace

parameter_server::consistency parse_consistency(const std::string& text) {
  if (const auto found = read_consistency(text))
    return *found;
  reject_option(
    "--consistency", "\"" + text + "\"",
    kind_meant_by(
      text, std::array<std::string, 4>{"async", "ssp", "sync", "sync-backup"})
      + "give async, ssp:S, sync or sync-backup:B, as in ssp:2");
}

parameter_server::consistency train_config::consistency_rule() const {
  return parse_consistency(consistency);
}

std::vector<std::string> train_config::devices_of(std::size_t worker) const {
  const auto each = devices_of_each(devices, workers);
  if (each == devices.size())
    return devices;
  const auto first = devices.begin() + std::ptrdiff_t(worker * each);
  return {first, first + std::ptrdiff_t(each)};
}

std::optional<parameter_server::consistency>
train_config::table_consistency_rule() const {
  if (table_consistency.empty())
    return std::nullopt;
  return parse_table_consistency(table_consistency);
}

std::uint32_t train_config::replicas_of_batch() const {
  const bool divides_batches =
    servers == 0
    || consistency_rule().kind
         == parameter_server::consistency_kind::synchronous;
  return divides_batches ? replicas : 1;
}

void resolve_placement(const train_options& options, train_config& out) {
  out.strategy = implied_strategy(options);
  check_name("--strategy", out.strategy,
             std::array<std::string, 6>{
               "default", "one_device", "mirrored", "central_storage",
               "multi_worker_mirrored", "parameter_server"});
  if (options.devices && options.devices->empty())
    reject_option("--devices", "\"\"", "name at least one, as in cpu:0");
  out.devices = options.devices.value_or(std::vector<std::string>{});
  const bool is_multi_worker = out.strategy == "multi_worker_mirrored";
  check_devices(out.devices, is_multi_worker ? workers_of(options) : 1);
  const auto replicas = options.replicas
                          ? check_positive("--replicas", *options.replicas,
                                           train_option_limits::replicas)
                          : 0;
  out.transport = options.transport.value_or("auto");
  check_name("--transport", out.transport,
             std::array<std::string, 4>{"auto", "shm", "tcp", "tls"});
  out.collectives = options.collectives.value_or("auto");
  check_name("--collectives", out.collectives,
             std::array<std::string, 3>{"auto", "host", "nccl"});
  const bool has_servers = out.strategy == "parameter_server";
  if (options.servers && !has_servers)
    reject_option(
      "--servers", std::to_string(*options.servers),
      "the " + out.strategy
        + " strategy has no servers; use --strategy parameter_server");
  if (options.consistency && !has_servers)
    reject_option(
      "--consistency", *options.consistency,
      "it applies to parameter servers; use --strategy parameter_server");
  if (options.table_consistency && !has_servers)
    reject_option(
      "--table-consistency", *options.table_consistency,
      "it applies to parameter servers; use --strategy parameter_server");
  if (options.replication && !has_servers)
    reject_option(
      "--replication", std::to_string(*options.replication),
      "it applies to parameter servers; use --strategy parameter_server");
  if (options.workers && !is_multi_worker && !has_servers)
    reject_option(
      "--workers", std::to_string(*options.workers),
      "the " + out.strategy
        + " strategy has one worker; use --strategy multi_worker_mirrored");
  if (options.transport && has_servers)
    reject_option(
      "--transport", out.transport,
      "tensors between workers and servers pass through shared memory "
      "on one machine, else over TCP or TLS; leave it out");
  if (options.transport && !is_multi_worker)
    reject_option("--transport", out.transport,
                  "it applies to tensors between workers; give --workers too");
  if (options.collectives && has_servers)
    reject_option("--collectives", out.collectives,
                  "parameter servers have no collectives; leave it out");
  if (options.collectives && !is_multi_worker && out.strategy != "mirrored")
    reject_option(
      "--collectives", out.collectives,
      "it applies to the sums of several workers or CUDA devices; give "
      "--workers, or name several CUDA devices");
  if (is_multi_worker)
    resolve_workers(options, replicas, out);
  else if (has_servers)
    resolve_servers(options, replicas, out);
  else if (out.strategy == "mirrored" || out.strategy == "central_storage")
    resolve_devices(options, replicas, out);
  else if (out.strategy == "one_device")
    resolve_one_device(replicas, out);
  else
    resolve_default(replicas, out);
  check_nccl_devices(out);
}

} // namespace troupe
