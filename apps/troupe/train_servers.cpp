#include "train_servers.hpp"

#include "command.hpp"
#include "interrupt.hpp"
#include "saved_run.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/cluster_task.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_status.hpp"
#include "troupe/training/parameter_server/server_training.hpp"
#include "troupe/training/strategies/multi_worker.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr std::uint64_t test_batch = 256;
constexpr auto model_name = "parameters";
/// Maximum time until all tasks of the cluster can be reached.
constexpr auto start_timeout = 60s;
/// Time between attempts to connect to tasks that were lost.
constexpr std::chrono::milliseconds reconnect_interval = 200ms;
/// Connections of a node: each worker has one to each server.
constexpr std::size_t max_clients = 1024;

void check_arguments(const train_arguments& x) {
  const auto reject = [](const std::string& option) {
    throw std::invalid_argument(option
                                + ": a run with parameter servers cannot have "
                                  "this option yet; leave it out");
  };
  if (x.join)
    reject("--join");
  if (x.any_task)
    reject("--task any");
  if (!x.listen.empty())
    reject("--listen " + x.listen);
  if (x.spare_seconds > 0)
    reject("--spare " + std::to_string(x.spare_seconds));
  if (x.sigterm_leaves)
    reject("--on-sigterm leave");
  if (x.options.audit_steps)
    reject("--audit-steps " + std::to_string(*x.options.audit_steps));
  if (x.options.on_deviation)
    reject("--on-deviation " + *x.options.on_deviation);
}

struct run_data {
  data::dataset training, test;
};

run_data open_batches(const train_config& config) {
  const auto [examples, test_examples] =
    open_data(config.data, models::find_loss(config.loss).targets);
  return {
    examples.shuffle(data::whole_dataset, config.seed).batch(config.batch),
    test_examples.batch(test_batch)};
}

model_options model_options_of(const train_config& config) {
  return {
    .seed = config.seed, .loss = config.loss, .precision = config.precision};
}

using shared_faults = std::shared_ptr<injection::process_fault_injector>;

/// What a worker trains, as the chief has described it.
server_training training_of(const std::string& arguments,
                            const shared_faults& faults) {
  const auto config = resolve_options(read_train_options(arguments));
  const auto data = open_batches(config);
  return {.name = model_name,
          .architecture = models::find_model(config.model),
          .rule = config.rule(),
          .options = model_options_of(config),
          .batches = data.training,
          .validation = data.test,
          .metrics = metrics_of(config),
          .faults = faults};
}

/// Lets chiefs use this process, until one tells it to end. A signal ends it as
/// a process that does not catch it: then it is lost, and its work is done
/// elsewhere.
int serve(const std::string& address, const net::cluster_task& task,
          const shared_faults& faults) {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  runtime actors;
  register_parameter_server(actors, {.window = 4096}, faults);
  register_server_training(actors, [faults](const std::string& arguments) {
    return training_of(arguments, faults);
  });
  node_server node{actors,
                   {.listen = address,
                    .name = to_string(task),
                    .max_clients = max_clients,
                    .max_roles_per_client = max_clients}};
  while (!node.wait_for_stop(1s)) {
  }
  return ok;
}

/// Waits until a node can be reached.
void wait_for_node(runtime& actors, const std::string& name,
                   const std::string& address,
                   std::chrono::steady_clock::time_point end) {
  for (;;) {
    try {
      const remote_node found{actors, address, {.name = "chief"}};
      return;
    } catch (const job_error& e) {
      const bool may_come =
        e.code == ec::peer_lost || e.code == ec::unreachable;
      if (!may_come || std::chrono::steady_clock::now() >= end)
        throw job_error{e.code, "cannot reach " + name + " at " + address + ": "
                                  + e.what()};
    }
    std::this_thread::sleep_for(20ms);
  }
}

/// Tells a node to end, and waits until it has heard so.
void stop_node(runtime& actors, const std::string& name,
               const std::string& address) {
  try {
    remote_node node{actors, address, {.name = "chief", .connect_timeout = 1s}};
    if (!node.stop_and_wait(5s))
      log(log_level::warning,
          name + " at " + address + " does not answer; it may go on");
  } catch (const job_error& e) {
    if (e.code != ec::peer_lost) // it has ended
      log(log_level::warning,
          "cannot tell " + name + " at " + address + " to end: " + e.what());
  }
}

std::vector<std::string> addresses_of(const net::cluster_spec& cluster,
                                      const std::string& job) {
  std::vector<std::string> out;
  for (const auto index : cluster.task_indices(job))
    out.push_back(cluster.task_address(job, index));
  return out;
}

server_fit_options fit_options_of(const train_arguments& arguments,
                                  const train_config& config,
                                  const run_data& data) {
  return {.epochs = config.epochs,
          .validation = data.test,
          .metrics = metrics_of(config),
          .schedule = config.learning_rate_schedule(
            config.epochs * data.training.size().value_or(1)),
          .on_nan = config.on_nan,
          .max_steps = arguments.max_steps,
          .stop = watch_for_interrupts().stop,
          .resume = !arguments.resume.empty(),
          .progress =
            arguments.quiet ? progress_style::none : progress_style::automatic,
          .consistency = config.consistency_rule(),
          .replicas = config.replicas,
          .on_dropped = [](const dropped_contribution& x) {
            log(log_level::info,
                "step " + std::to_string(x.step)
                  + ": the contribution of replica " + std::to_string(x.replica)
                  + " came too late; its " + std::to_string(x.examples)
                  + " examples do not count");
          }};
}

void save(const server_model& trained, const train_arguments& arguments,
          const train_config& config) {
  model copy{models::find_model(config.model), config.rule(),
             model_options_of(config)};
  trained.copy_to(copy);
  copy.save(arguments.save_path(), write_train_options(to_options(config)));
}

/// Answers `troupe status`.
/// @returns null if this process cannot listen. The run goes on without it.
std::unique_ptr<node_server>
serve_status(const parameter_server_strategy& strategy, runtime& actors,
             const std::string& address) {
  register_server_status(strategy);
  try {
    return std::make_unique<node_server>(
      actors, node_server_options{.listen = address, .name = "chief 0"});
  } catch (const std::exception& e) {
    log(log_level::warning,
        "`troupe status` cannot ask the chief at " + address + ": " + e.what());
    return nullptr;
  }
}

/// The chief: trains on the servers and workers.
int lead(const train_arguments& arguments, const train_config& config,
         const net::cluster_spec& cluster) {
  const auto servers = addresses_of(cluster, "ps");
  const auto workers = addresses_of(cluster, "worker");
  check_outputs(arguments);
  std::optional<model> resumed;
  if (!arguments.resume.empty()) {
    resumed.emplace(model::load(arguments.resume));
    if (!resumed->interrupted())
      throw std::invalid_argument("--resume " + arguments.resume
                                  + ": this run was not interrupted; name the "
                                    "file of one that was");
    check_epochs(*resumed, config);
  }
  const auto data = open_batches(config);
  runtime actors;
  const auto end = std::chrono::steady_clock::now() + start_timeout;
  for (std::size_t i = 0; i < servers.size(); ++i)
    wait_for_node(actors, "ps " + std::to_string(i), servers[i], end);
  for (std::size_t i = 0; i < workers.size(); ++i)
    wait_for_node(actors, "worker " + std::to_string(i), workers[i], end);
  train_summary summary{config, {}};
  bool unfinished = false;
  {
    const parameter_server_strategy strategy{
      actors,
      {.workers = config.workers,
       .partitioner =
         parameter_server::fixed_shards_partitioner(config.servers),
       .nodes = servers,
       .threads = config.threads,
       .seed = config.seed,
       .copies = config.replication,
       .reconnect_interval = reconnect_interval}};
    const auto status =
      serve_status(strategy, actors, cluster.task_address("chief", 0));
    server_model trained{strategy, model_name, models::find_model(config.model),
                         config.rule(), model_options_of(config)};
    if (resumed)
      trained.copy_from(*resumed);
    resumed.reset();
    if (config.replication > 1 && !strategy.wait_for_copies(start_timeout))
      throw job_error{ec::stalled,
                      "the copies of the servers do not have their state after "
                        + std::to_string(start_timeout.count()) + " s"};
    cluster_coordinator coordinator{
      strategy,
      // A worker begins its next closure while the last one is recorded.
      {.in_flight = 2,
       .nodes = workers,
       .closures = server_training_closures,
       .arguments = write_train_options(to_options(config)),
       .reconnect_interval = reconnect_interval}};
    summary.result = trained.fit(coordinator, data.training,
                                 fit_options_of(arguments, config, data));
    unfinished = is_unfinished(summary.result);
    if (unfinished || !arguments.save.empty() || !arguments.resume.empty())
      save(trained, arguments, config);
    if (unfinished && !arguments.quiet)
      print_interrupted(arguments, trained.steps());
    if (unfinished && arguments.summary.empty())
      return interrupted; // no summary is wanted, so no evaluation
    for (const auto& server : strategy.status())
      summary.staleness += server.staleness;
    if (config.replication > 1) {
      const auto copies = strategy.copies();
      summary.copies_in_sync = copies.in_sync;
      summary.lost_servers = copies.lost_nodes;
    }
    summary.steps = trained.steps();
    summary.test =
      trained.evaluate(coordinator, data.test, {.metrics = metrics_of(config)});
    summary.weights_sha256 = trained.weights_sha256();
    summary.transport = "tcp";
  }
  if (!arguments.summary.empty())
    write_summary(summary, arguments.summary);
  if (unfinished)
    return interrupted; // workers and servers wait for the next chief
  if (!arguments.quiet)
    print_result(summary);
  for (std::size_t i = 0; i < workers.size(); ++i)
    stop_node(actors, "worker " + std::to_string(i), workers[i]);
  for (std::size_t i = 0; i < servers.size(); ++i)
    stop_node(actors, "ps " + std::to_string(i), servers[i]);
  return ok;
}

/// Returns the options in a cluster. The numbers of workers and servers default
/// to those in TF_CONFIG and must be equal to them.
train_options options_in(const net::cluster_spec& cluster,
                         train_options options) {
  if (cluster.empty())
    return options;
  const auto check = [&](const char* option, const std::string& job,
                         std::optional<std::int64_t>& given) {
    const auto named =
      cluster.has(job) ? static_cast<std::int64_t>(cluster.num_tasks(job)) : 0;
    if (named == 0)
      throw std::invalid_argument("TF_CONFIG: the cluster has no job \"" + job
                                  + "\"; parameter servers need the jobs "
                                    "chief, worker and ps");
    if (given && *given != named)
      throw std::invalid_argument(
        std::string{option} + " " + std::to_string(*given)
        + ": TF_CONFIG names " + std::to_string(named) + "; give " + option
        + " " + std::to_string(named));
    given = named;
  };
  check("--workers", "worker", options.workers);
  check("--servers", "ps", options.servers);
  if (!cluster.has("chief"))
    throw std::invalid_argument("TF_CONFIG: the cluster has no job \"chief\"; "
                                "parameter servers need the jobs chief, worker "
                                "and ps");
  return options;
}

} // namespace

int train_with_servers(const train_arguments& given_arguments) {
  check_arguments(given_arguments);
  const auto resolver = tf_config();
  const auto cluster = resolver.cluster_spec();
  const auto task = resolver.task();
  auto arguments = given_arguments;
  arguments.options = options_in(cluster, arguments.options);
  if (cluster.empty() || !task)
    return launch_with_servers(resolve_options(options_of(arguments)),
                               arguments.restarts, arguments.faults);
  const auto faults =
    injection::make_process_fault_injector({arguments.faults}, cluster, *task);
  const bool serves = task->type == "worker" || task->type == "ps";
  if (serves && !arguments.resume.empty()) // the chief reads the file
    return serve(cluster.task_address(task->type, task->id), *task, faults);
  const auto config = resolve_options(options_of(arguments));
  if (task->type == "chief")
    return lead(arguments, config, cluster);
  if (serves)
    return serve(cluster.task_address(task->type, task->id), *task, faults);
  throw std::invalid_argument("TF_CONFIG: task.type is " + task->type
                              + "; a run with parameter servers has the tasks "
                                "chief, worker and ps");
}
