#include "troupe/apps/troupe/commands/train_servers.hpp"

#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/run_data.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/apps/troupe/commands/model_evaluator.hpp"
#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/apps/troupe/commands/server_chief.hpp"
#include "troupe/models/network.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/cluster_task.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/job/worker_task.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/server_training.hpp"
#include "troupe/training/strategies/multi_worker.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// Connections of a node: each worker has one to each server.
constexpr std::size_t max_clients = 1024;

/// @errors throws std::invalid_argument if nothing would use the saved steps.
void check_save_steps(const train_arguments& x) {
  if (x.names_file())
    return;
  if (x.save_epochs > 0)
    throw std::invalid_argument("--save-epochs " + std::to_string(x.save_epochs)
                                + ": there is no file to which the run could "
                                  "be saved; give --save FILE");
  if (x.save_steps == 0)
    return;
  const auto option = "--save-steps " + std::to_string(x.save_steps);
  if (x.restarts == 0)
    throw std::invalid_argument(option
                                + ": there is no file to which they could be "
                                  "saved; give --save FILE, or --restarts N");
  if (const auto copies = x.options.replication.value_or(1); copies > 1)
    throw std::invalid_argument(option + ": with --replication "
                                + std::to_string(copies)
                                + " no state is kept for --restarts; give "
                                  "--save FILE");
}

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
  if (x.evaluator && !x.names_file())
    throw std::invalid_argument(
      "--evaluator: there is no file that it could evaluate; give --save FILE");
  check_save_steps(x);
}

/// @errors throws std::invalid_argument if --table-consistency is given and the
///         model has no table.
void check_tables(const train_arguments& arguments,
                  const train_config& config) {
  if (config.table_consistency.empty())
    return;
  const models::network net{model_of(arguments, config)};
  if (std::ranges::none_of(net.parameters(), &parameter_spec::is_table))
    throw std::invalid_argument("--table-consistency "
                                + config.table_consistency + ": the model "
                                + config.model + " has no table; leave it out");
}

using shared_faults = std::shared_ptr<injection::process_fault_injector>;

/// What a worker trains, as the chief has described it.
/// @errors throws std::invalid_argument if the data of this worker is other
///         than that of the chief.
server_training training_of(const std::string& arguments,
                            const shared_faults& faults) {
  const auto task = read_worker_task(arguments);
  auto config = resolve_options(task.options);
  const auto data = open_batches(config);
  if (const auto text = difference("the chief", task.data, describe(data));
      !text.empty())
    throw std::invalid_argument(
      "this worker has " + text
      + "; all tasks of a cluster must train on the same data");
  return {.name = server_variable_name,
          .architecture = task.model,
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
  die_of_interrupts();
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
  if (cluster.empty() || !task) {
    const auto config = resolve_options(options_of(arguments));
    check_tables(arguments, config);
    return launch_with_servers(config, arguments);
  }
  if (task->type == "evaluator")
    return evaluate_versions(arguments, resolve_options(options_of(arguments)));
  const auto faults =
    injection::make_process_fault_injector({arguments.faults}, cluster, *task);
  const bool serves = task->type == "worker" || task->type == "ps";
  if (serves && !arguments.resume.empty()) // the chief reads the file
    return serve(cluster.task_address(task->type, task->id), *task, faults);
  const auto config = resolve_options(options_of(arguments));
  if (task->type == "chief") {
    check_tables(arguments, config); // only the chief needs a model file here
    return lead_with_servers(arguments, config, cluster,
                             [](const std::string& description) {
                               return training_of(description, nullptr);
                             });
  }
  if (serves)
    return serve(cluster.task_address(task->type, task->id), *task, faults);
  throw std::invalid_argument("TF_CONFIG: task.type is " + task->type
                              + "; a run with parameter servers has the tasks "
                                "chief, worker, ps and evaluator");
}
