#include "troupe/training/strategies/multi_worker.hpp"

#include "troupe/actors/core/version.hpp"
#include "troupe/actors/group/actor_group.hpp"
#include "troupe/training/strategies/communication_conversions.hpp"
#include "troupe/training/strategies/devices.hpp"
#include "troupe/training/strategies/strategy_state.hpp"
#include "troupe/training/support/log.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

constexpr auto name = "multi_worker_mirrored";

/// Returns the tasks that have replicas, in order: the chief, then the workers.
std::vector<net::cluster_task> members_of(const net::cluster_spec& cluster) {
  std::vector<net::cluster_task> all;
  for (const auto* type : {"chief", "worker"})
    if (cluster.has(type))
      for (const auto index : cluster.task_indices(type))
        all.push_back({type, index});
  return all;
}

/// Returns this worker's task in the cluster; none if it is the only worker.
std::optional<net::cluster_task> place_in(const net::cluster_spec& cluster,
                                          const net::cluster_resolver& who) {
  if (cluster.empty())
    return std::nullopt;
  auto task = who.task();
  if (!task)
    throw std::invalid_argument(
      "the cluster names workers, but no task for this process; set it, in "
      "TF_CONFIG as \"task\": {\"type\": \"worker\", \"index\": 0}");
  net::check_task(cluster, *task);
  if (net::worker_count(cluster, *task) == 1)
    return std::nullopt;
  return task;
}

cluster_options options_of(const net::cluster_spec& cluster,
                           const net::cluster_task& task,
                           const multi_worker_options& given) {
  cluster_options x;
  x.job = given.job;
  for (const auto& one : members_of(cluster)) {
    x.addresses.push_back(
      net::parse_address(cluster.task_address(one.type, one.id)));
    x.names.push_back(to_string(one));
  }
  x.index = static_cast<std::uint32_t>(net::id_in_cluster(cluster, task));
  x.replicas = static_cast<std::uint32_t>(given.devices.size());
  x.threads = given.threads;
  x.agreed = "Troupe " + std::string{version} + ", bytes_per_pack "
             + std::to_string(given.communication.bytes_per_pack) + ", sums "
             + to_string(terms{way_of(given.communication.implementation)});
  x.patience = given.patience;
  x.transport = given.transport;
  x.at = given.at;
  if (!x.at)
    x.credentials = given.credentials ? *given.credentials
                                      : net::credentials_from_environment();
  if (x.transport == transport_kind::tls && !x.credentials.tls && !x.at)
    throw std::invalid_argument(
      "transport tls requires certificates; pass them as credentials, or set "
      "PEM "
      "files in TROUPE_TLS_CA, TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY");
  x.heartbeat = given.heartbeat;
  x.suspect = given.suspect;
  x.listen = given.listen;
  x.faults = given.faults;
  x.log = given.log ? given.log : log_of_connections;
  return x;
}

/// Describes the transports of tensors to the other workers; "shm+tcp" if they
/// differ.
std::string transports(const cluster& in) {
  std::string all;
  for (std::uint32_t p = 0; p < in.processes(); ++p)
    if (const auto one = in.transport_to(p);
        p != in.index() && all.find(one) == all.npos)
      all += (all.empty() ? "" : "+") + one;
  return all;
}

std::shared_ptr<strategy_state>
over_workers(runtime& on, const net::cluster_resolver& who,
             const multi_worker_options& given) {
  check(given.communication);
  check_threads(given.threads);
  auto devices = parse_devices(given.devices);
  crew_options options;
  options.replicas = static_cast<std::uint32_t>(devices.size());
  options.threads = given.threads;
  options.patience = given.communication.timeout;
  options.way = way_of(given.communication.implementation);
  const auto cluster = who.cluster_spec();
  const auto task = place_in(cluster, who);
  std::shared_ptr<class cluster> joined;
  if (task)
    joined =
      std::make_shared<class cluster>(on, options_of(cluster, *task, given));
  auto state =
    state_over(joined ? make_crew(*joined, options) : make_crew(on, options),
               name, std::move(devices), given.threads);
  state->bytes_per_pack =
    static_cast<std::size_t>(given.communication.bytes_per_pack);
  state->callback_timeout =
    std::max(given.communication.timeout, given.communication.callback_timeout);
  if (joined)
    state->transport = transports(*joined);
  state->connection = std::move(joined);
  return state;
}

} // namespace

multi_worker_mirrored_strategy::multi_worker_mirrored_strategy(
  runtime& on, const net::cluster_resolver& who,
  const multi_worker_options& options)
  : strategy{over_workers(on, who, options)} {}

} // namespace troupe
