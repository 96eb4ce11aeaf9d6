#include "troupe/training/strategies/multi_worker.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/version.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/membership/state_lanes.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/local_group.hpp"
#include "troupe/training/strategies/nccl_devices.hpp"
#include "troupe/training/strategies/replica/communication_conversions.hpp"
#include "troupe/training/strategies/replica/devices.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/transports.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace troupe {

namespace {

constexpr auto name = "multi_worker_mirrored";

/// Returns the tasks that have replicas: first the chief, then the workers.
std::vector<net::cluster_task> worker_tasks(const net::cluster_spec& cluster) {
  std::vector<net::cluster_task> tasks;
  for (const auto* type : {"chief", "worker"})
    if (cluster.has(type))
      for (const auto index : cluster.task_indices(type))
        tasks.push_back({type, index});
  return tasks;
}

/// Returns this worker's task in the cluster. A spare has none yet: returns the
/// first one. None: there is no other worker.
std::optional<net::cluster_task> own_task(const net::cluster_spec& cluster,
                                          const net::cluster_resolver& resolver,
                                          bool any_task) {
  if (any_task) {
    const auto tasks = worker_tasks(cluster);
    if (tasks.size() < 2)
      throw std::invalid_argument(
        "a spare for any task has no job to join: the cluster has "
        + std::string{tasks.empty() ? "no workers" : "one worker"}
        + "; give the cluster of the running job");
    return tasks.front();
  }
  if (cluster.empty())
    return std::nullopt;
  auto task = resolver.task();
  if (!task)
    throw std::invalid_argument(
      "the cluster names workers, but no task for this process; set it, in "
      "TF_CONFIG as \"task\": {\"type\": \"worker\", \"index\": 0}");
  net::check_task(cluster, *task);
  if (net::worker_count(cluster, *task) == 1)
    return std::nullopt;
  return task;
}

/// Returns the number of replicas of a job of several workers.
/// @errors throws std::invalid_argument if a worker would have none.
std::uint32_t replicas_of_job(const multi_worker_options& options,
                              std::size_t workers) {
  if (options.replicas == 0)
    return static_cast<std::uint32_t>(options.devices.size() * workers);
  if (options.replicas < workers)
    throw std::invalid_argument(
      "replicas " + std::to_string(options.replicas) + ": the job has "
      + std::to_string(workers)
      + " workers, each of which needs one; give at least "
      + std::to_string(workers) + ", or fewer workers");
  return options.replicas;
}

/// The launcher of this process as its membership actor sees it.
class linked_launcher final : public job_launcher {
public:
  explicit linked_launcher(const net::launcher_link& link) : link_{link} {}

  void report_unreachable(std::uint64_t number) override {
    link_.report_unreachable(number);
  }
  bool report_candidate(const net::process_identity& candidate) override {
    return link_.report_candidate(candidate);
  }
  std::uint64_t ask(const net::survivors_question& question) override {
    return link_.ask(question);
  }
  std::optional<bool> answer_to(std::uint64_t question) override {
    return link_.answer_to(question);
  }
  void withdraw() override { link_.withdraw(); }

private:
  const net::launcher_link link_;
};

/// Returns whether NCCL adds the sums of a job of several workers.
/// @errors throws std::invalid_argument if NCCL is required and this worker
///         cannot use it.
device_sum_options make_device_sums(const multi_worker_options& options,
                                    const std::vector<device>& devices) {
  using backends = communication_options::backends;
  const auto wanted = collectives_of(options.communication);
  const bool is_required = wanted == backends::nccl;
  const bool is_encrypted =
    options.router ? options.router->endpoint().uses_tls()
                   : credentials_of(options.connection).tls != nullptr;
  if (is_required && options.transport == transport_kind::tls)
    throw std::invalid_argument(
      "transport tls: NCCL does not encrypt what it sends; give another "
      "transport, or collectives host");
  if (wanted == backends::host
      || (!is_required
          && (is_encrypted
              || options.communication.implementation
                   == communication_options::implementations::ring)))
    return {};
  return open_nccl_devices(is_required ? device_sum_policy::required
                                       : device_sum_policy::if_possible,
                           devices, options.nccl_device);
}

cluster_options to_cluster_options(
  const net::cluster_spec& cluster, const net::cluster_task& task,
  const multi_worker_options& options, device_sum_options device_sums,
  const std::optional<net::launcher_link>& launcher) {
  cluster_options result;
  result.job = options.job;
  for (const auto& member : worker_tasks(cluster)) {
    result.addresses.push_back(
      net::parse_address(cluster.task_address(member.type, member.id)));
    result.names.push_back(to_string(member));
  }
  result.task = static_cast<std::uint32_t>(net::id_in_cluster(cluster, task));
  const auto workers = result.addresses.size();
  const auto replicas = replicas_of_job(options, workers);
  // A spare for any task asks for as many as the first worker has.
  result.replicas = replicas_of_worker(replicas, workers, result.task);
  result.threads = options.threads;
  result.device_sums = std::move(device_sums);
  result.shared_config =
    "Troupe " + std::string{version} + ", devices of each worker "
    + std::to_string(options.devices.size()) + ", replicas "
    + std::to_string(replicas) + ", bytes_per_pack "
    + std::to_string(options.communication.bytes_per_pack) + ", sums "
    + to_string(
      collective_options{algorithm_of(options.communication.implementation)})
    + ", collectives " + to_string(result.device_sums.policy);
  result.start_timeout = options.start_timeout;
  result.start_failure = options.start_failure;
  const auto* const joins = std::getenv(net::launcher_link::joiner_variable);
  result.join_running_job =
    options.join_running_job || (joins && std::string_view{joins} == "1");
  result.spare_timeout = options.spare_timeout;
  result.any_task = options.any_task;
  result.transport = options.transport;
  result.router = options.router;
  result.connection = options.connection;
  if (result.transport == transport_kind::tls && !result.router
      && !credentials_of(result.connection).tls)
    throw std::invalid_argument(
      "transport tls requires certificates; pass them as "
      "connection.credentials, or set PEM files in TROUPE_TLS_CA, "
      "TROUPE_TLS_CERTIFICATE and TROUPE_TLS_KEY");
  result.listen = options.listen;
  result.faults =
    options.faults || options.any_task
      ? options.faults
      : injection::make_process_fault_injector(
        {options.fault_plan}, result.addresses, result.task, replicas);
  if (launcher && launcher->is_witness())
    result.launcher = std::make_shared<linked_launcher>(*launcher);
  result.log = options.log ? options.log : log_of_connections;
  const auto* const plan = std::getenv(injection::plan_location::variable);
  if (options.any_task && !options.faults && plan && *plan)
    result.log(net::severity::warning,
               std::string{injection::plan_location::variable} + " is \""
                 + net::printable(plan, net::max_sentence_bytes)
                 + "\", but a spare for any task injects no faults");
  return result;
}

std::shared_ptr<strategy_state>
make_multi_worker_state(runtime& local_runtime,
                        const net::cluster_resolver& resolver,
                        const multi_worker_options& options) {
  check(options.communication);
  check_threads(options.threads);
  auto devices = parse_devices(options.devices);
  replica_group_options group_options;
  group_options.replicas = replicas_of_job(options, 1);
  group_options.threads = options.threads;
  group_options.step_timeout = options.communication.timeout;
  group_options.algorithm = algorithm_of(options.communication.implementation);
  if (options.any_task && !options.fault_plan.empty())
    throw std::invalid_argument(
      "fault_plan is \"" + options.fault_plan
      + "\", but a spare for any task injects no faults; leave it empty");
  auto device_sums = make_device_sums(options, devices);
  const auto spec = resolver.cluster_spec();
  const auto task = own_task(spec, resolver, options.any_task);
  const auto launcher = net::launcher_link::from_environment();
  group_options.recorder = make_local_recorder();
  std::shared_ptr<class cluster> joined;
  if (task) {
    auto cluster_settings = to_cluster_options(
      spec, *task, options, std::move(device_sums), launcher);
    cluster_settings.recorder = group_options.recorder;
    joined = std::make_shared<class cluster>(local_runtime,
                                             std::move(cluster_settings));
  }
  auto state = make_strategy_state(
    joined ? make_replica_group(*joined, group_options)
           : make_local_group(local_runtime, group_options,
                              devices.size() > 1 ? std::move(device_sums)
                                                 : device_sum_options{}),
    name, std::move(devices), options.threads);
  state->recorder = group_options.recorder;
  state->bytes_per_pack =
    static_cast<std::size_t>(options.communication.bytes_per_pack);
  state->callback_timeout = std::max(options.communication.timeout,
                                     options.communication.callback_timeout);
  if (joined) {
    state->transport = transports_of(*joined);
    state->source = std::make_shared<state_source>(make_state_lanes(*joined));
    state->copy_ahead_bytes = options.copy_ahead_bytes;
  }
  state->cluster = std::move(joined);
  state->launcher = launcher;
  if (launcher && state->cluster && !state->lacks_state)
    launcher->report_begun(); // one that joins has not begun yet
  return state;
}

} // namespace

std::uint32_t replicas_of_worker(std::uint32_t replicas, std::size_t workers,
                                 std::size_t worker) {
  return static_cast<std::uint32_t>(replicas / workers
                                    + (worker < replicas % workers ? 1 : 0));
}

multi_worker_mirrored_strategy::multi_worker_mirrored_strategy(
  runtime& local_runtime, const net::cluster_resolver& resolver,
  const multi_worker_options& options)
  : strategy{make_multi_worker_state(local_runtime, resolver, options)} {}

} // namespace troupe
