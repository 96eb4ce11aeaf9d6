#include "troupe/apps/troupe/commands/train.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/metric_text.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/apps/troupe/base/run_data.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/apps/troupe/commands/train_servers.hpp"
#include "troupe/apps/troupe/launcher/flight_directory.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/job/job_placement.hpp"
#include "troupe/training/job/resumed_placement.hpp"
#include "troupe/training/job/train_summary.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/multi_worker.hpp"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>

namespace {

using namespace troupe;

constexpr auto over_workers = "multi_worker_mirrored";

transport_kind transport_of(const train_config& config) {
  return config.transport == "shm"   ? transport_kind::shm
         : config.transport == "tcp" ? transport_kind::tcp
         : config.transport == "tls" ? transport_kind::tls
                                     : transport_kind::automatic;
}

std::optional<net::address> listen_address(const train_arguments& arguments) {
  if (arguments.listen.empty())
    return std::nullopt;
  try {
    return net::parse_address(arguments.listen);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument("--listen " + arguments.listen + ": "
                                + e.what());
  }
}

/// @param worker        number of this process among the workers.
/// @param start_failure as in `multi_worker_options`.
strategy make_strategy(const train_config& config, std::size_t worker,
                       const train_arguments& arguments,
                       std::optional<runtime>& actors,
                       const std::string& start_failure = {}) {
  runtime_options options;
  options.log = [](const std::string& line) { log(log_level::warning, line); };
  if (config.strategy == "mirrored")
    return mirrored_strategy{
      actors.emplace(options),
      config.devices,
      {.threads = config.threads,
       .collectives = parse_collectives(config.collectives)}};
  if (config.strategy == "central_storage")
    return central_storage_strategy{
      actors.emplace(options), config.devices, {.threads = config.threads}};
  if (config.strategy == over_workers)
    return multi_worker_mirrored_strategy{
      actors.emplace(options),
      tf_config(),
      {.devices = config.devices_of(worker),
       .replicas = config.replicas,
       .threads = config.threads,
       .communication = {.collectives = parse_collectives(config.collectives)},
       .transport = transport_of(config),
       .start_failure = start_failure,
       .join_running_job = arguments.join,
       .spare_timeout = std::chrono::seconds{arguments.spare_seconds},
       .any_task = arguments.any_task,
       .listen = listen_address(arguments),
       .fault_plan = arguments.faults}};
  return one_device_strategy{
    config.devices.front(),
    {.replicas = config.replicas, .threads = config.threads}};
}

/// Checks the options that concern workers which are started again.
void check_restarts(const train_arguments& arguments,
                    const train_config& config, bool in_cluster) {
  if (arguments.restarts > 0 && config.workers == 1)
    throw std::invalid_argument(
      "--restarts " + std::to_string(arguments.restarts)
      + ": there are no workers; give --workers with 2 or more");
  if (arguments.spare_seconds > 0 && !arguments.join)
    throw std::invalid_argument(
      "--spare " + std::to_string(arguments.spare_seconds)
      + ": only a worker that joins a job waits for its task; give --join too");
  if (arguments.join && !in_cluster)
    throw std::invalid_argument(
      "--join: no job is given; set TF_CONFIG to the cluster of the running "
      "job"
      + std::string{arguments.any_task
                      ? ""
                      : ", and to the task of the worker that it has lost or "
                        "give --task any"});
}

/// Checks the options of a spare for any task.
void check_any_task(const train_arguments& arguments) {
  if (!arguments.any_task) {
    if (!arguments.listen.empty())
      throw std::invalid_argument(
        "--listen " + arguments.listen
        + ": a worker with a task listens at its address in TF_CONFIG; give "
          "--task any too, or leave --listen out");
    return;
  }
  if (!arguments.join || arguments.spare_seconds == 0)
    throw std::invalid_argument(
      "--task any: only a spare takes any task; give --join and --spare S too");
  if (!arguments.faults.empty())
    throw std::invalid_argument(
      "--faults " + arguments.faults
      + ": a spare for any task injects no faults; leave it out");
  listen_address(arguments);
}

/// A spare for any task does not know which devices its task has.
void check_device_of_any_task(const train_arguments& arguments,
                              const train_config& config) {
  if (arguments.any_task && config.devices_of(0) != config.devices)
    throw std::invalid_argument(
      "--devices with " + std::to_string(config.devices.size())
      + " CUDA devices: they are divided among the workers, and a spare for "
        "any task does not know which its task has; name those of one worker");
}

/// Checks that there are processes into which faults can be injected.
void check_faults(const train_arguments& arguments,
                  const train_config& config) {
  if (!arguments.faults.empty() && config.workers == 1)
    throw std::invalid_argument(
      "--faults " + arguments.faults
      + ": faults are injected into workers, and there are none; give "
        "--workers with 2 or more");
}

/// A process of a cluster need not have the file of --resume if the strategy is
/// given.
bool has_servers(const train_arguments& arguments) {
  if (implied_strategy(arguments.options) == "parameter_server")
    return true;
  return !arguments.resume.empty()
         && stays_on_servers(read_train_options(resumed_note(arguments)),
                             arguments.options);
}

/// Checks the options of a run with parameter servers.
void check_has_no_servers(const train_arguments& arguments) {
  const auto reject = [](const std::string& option) {
    throw std::invalid_argument(option
                                + ": only a run with parameter servers has "
                                  "this option; give --servers, or leave it "
                                  "out");
  };
  if (arguments.evaluator)
    reject("--evaluator");
  for (const auto& [option, every] :
       {std::pair{"--save-steps ", arguments.save_steps},
        std::pair{"--save-epochs ", arguments.save_epochs}})
    if (every > 0 && !arguments.names_file())
      throw std::invalid_argument(option + std::to_string(every)
                                  + ": there is no file to which the run could "
                                    "be saved; give --save FILE");
}

/// A worker that is started again reads the file of --resume again. So that
/// file must be the same during the whole run.
void check_periodic_saves(const train_arguments& arguments,
                          const train_config& config) {
  if (config.workers > 1
      && (arguments.save_steps > 0 || arguments.save_epochs > 0)
      && !arguments.resume.empty())
    try {
      require_distinct("--resume", arguments.resume, "--save",
                       arguments.save_path());
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument(
        "--resume " + arguments.resume
        + ": a worker that is started again reads this file, so the run cannot "
          "be saved to it meanwhile; give --save FILE with another one");
    }
}

void check_names(const train_arguments& arguments) {
  require_distinct("--summary", arguments.summary, "--save", arguments.save);
  require_distinct("--summary", arguments.summary, "--resume",
                   arguments.resume);
  require_distinct("--summary", arguments.summary, "--init", arguments.init);
  require_distinct("--summary", arguments.summary, "an interrupted run",
                   arguments.save_path());
  if (!arguments.init.empty() && !arguments.resume.empty())
    throw std::invalid_argument(
      "--init " + arguments.init
      + ": --resume is given too, and the weights are those of the resumed "
        "run; leave one of the two out");
}

/// Placement of this process in a cluster, as TF_CONFIG says.
struct task_placement {
  bool in_cluster = false;
  std::uint64_t workers = 1;
  std::size_t worker = 0; ///< Number among the workers.
  bool chief = true;
};

/// @param any_task the task in TF_CONFIG is not used. The process may lead.
task_placement placement_from_environment(bool any_task) {
  const auto config = tf_config();
  const auto cluster = config.cluster_spec();
  auto task = config.task();
  if (any_task)
    task = {cluster.has("chief") ? "chief" : "worker", 0};
  if (cluster.empty() || !task)
    return {};
  if (task->type != "chief" && task->type != "worker")
    throw std::invalid_argument(
      "TF_CONFIG: task.type is " + task->type
      + ", but only a chief or a worker can train; with "
        "parameter servers, give --strategy "
        "parameter_server");
  return {true, net::worker_count(cluster, *task),
          net::id_in_cluster(cluster, *task), net::is_chief(cluster, *task)};
}

/// Resolves the options. In a cluster, the number of workers defaults to the
/// number in TF_CONFIG and must be equal to it.
train_config config_in(const task_placement& placement,
                       train_arguments arguments) {
  if (placement.in_cluster && !arguments.options.workers
      && implied_strategy(arguments.options) == over_workers)
    arguments.options.workers = static_cast<std::int64_t>(placement.workers);
  auto config = resolve_options(options_of(arguments));
  if (placement.in_cluster && config.strategy == over_workers
      && config.workers != placement.workers)
    throw std::invalid_argument(
      "--workers " + std::to_string(config.workers) + ": TF_CONFIG names "
      + std::to_string(placement.workers) + "; give --workers "
      + std::to_string(placement.workers));
  if (placement.workers > 1 && config.strategy != over_workers)
    log(log_level::warning, "TF_CONFIG names "
                              + std::to_string(placement.workers)
                              + " workers, but --strategy " + config.strategy
                              + " trains in this process alone; give "
                                "--strategy "
                              + over_workers + " to train on all of them");
  return config;
}

/// Tells the other workers of a cluster why this one cannot take part, so that
/// they do not wait for it until the start timeout. A launcher ends them
/// itself. A job that runs does not wait for a worker that joins.
void tell_others(const std::exception& why, const train_config& config,
                 std::size_t worker, const train_arguments& arguments) {
  if (config.strategy != over_workers || config.workers == 1 || arguments.join
      || net::launcher_link::from_environment())
    return;
  log(log_level::warning, std::string{why.what()}
                            + "; this worker connects to the others to tell "
                              "them that it cannot take part");
  try {
    std::optional<runtime> actors;
    make_strategy(config, worker, arguments, actors, why.what());
  } catch (const std::exception& e) { // this is how the start fails
    log(log_level::info, e.what());
  }
}

model make_model(const train_arguments& arguments, const train_config& config) {
  return arguments.resume.empty() ? new_model(arguments, config)
                                  : load_resumed(arguments).state;
}

fit_options fit_options_of(const train_arguments& arguments,
                           const train_config& config,
                           const data::dataset& training,
                           const data::dataset& test) {
  fit_options options;
  options.epochs = config.epochs;
  options.validation = test;
  options.metrics = metrics_of(config);
  options.schedule =
    config.learning_rate_schedule(config.epochs * training.size().value_or(1));
  if (config.patience > 0)
    options.early_stopping =
      early_stopping{.monitor = config.monitor, .patience = config.patience};
  options.progress =
    arguments.quiet ? progress_style::none : progress_style::automatic;
  options.graph = config.graph;
  options.on_nan = config.on_nan;
  options.audit_steps = config.audit_steps;
  options.on_deviation = config.on_deviation;
  options.replica_shares = config.replica_shares;
  options.max_steps = arguments.max_steps;
  if (arguments.save_steps > 0 || arguments.save_epochs > 0)
    options.save =
      periodic_save{.file = arguments.save_path(),
                    .steps = arguments.save_steps,
                    .epochs = arguments.save_epochs,
                    .note = write_train_options(to_options(config))};
  const auto flags = watch_for_interrupts(arguments.sigterm_leaves);
  options.stop = flags.stop;
  options.leave = flags.leave;
  options.resume = !arguments.resume.empty();
  options.accept_replicas = arguments.options.other_replicas;
  return options;
}

/// Saves the model of a run that has ended, as the options ask for it.
/// @returns as `save_run`
std::exception_ptr save_ended(const train_arguments& arguments,
                              const train_config& config, const model& model,
                              bool unfinished) {
  if (!unfinished && !arguments.names_file())
    return nullptr;
  auto problem = save_run(model, arguments, config);
  if (!problem && unfinished && !arguments.quiet
      && model.made_in().worker() == 0)
    print_interrupted(arguments, model.steps());
  return problem;
}

/// Returns the error of a device that has the only state of a run. It says from
/// where the run can go on.
device_lost with_remedy(const device_lost& error,
                        const train_arguments& arguments) {
  const bool is_saved = (arguments.save_steps > 0 || arguments.save_epochs > 0)
                        && std::filesystem::exists(arguments.save_path());
  return device_lost{
    std::string{error.what()} + "; the state of the run was on it, so "
    + (is_saved ? "continue from the last save with: troupe train --resume "
                    + arguments.save_path()
                : "nothing is saved; --save FILE --save-steps N loses less")};
}

/// Trains. If the job fails, saves what this process has of it.
history fit(model& model, const data::dataset& training,
            const fit_options& options, const train_arguments& arguments,
            const train_config& config) {
  try {
    return model.fit(training, options);
  } catch (const device_lost& e) {
    if (model.made_in().state()->group->is_excluded())
      throw; // the others go on
    throw with_remedy(e, arguments);
  } catch (const job_error&) {
    try {
      const auto name = model.save_after_failure(
        arguments.save_path(), write_train_options(to_options(config)));
      if (!name.empty())
        std::cerr << "the job has failed after step " << model.steps()
                  << " of this worker; continue with: "
                  << "troupe train --resume " << name.string() << '\n';
    } catch (const std::exception& e) {
      log(log_level::error, e.what());
    }
    throw;
  }
}

} // namespace

void print_result(const train_summary& summary) {
  std::printf("%s  %.0f examples/s\n", text_of_test(summary.test).c_str(),
              summary.examples_per_second());
  if (summary.staleness.gradients > 0)
    std::printf("staleness of gradients: mean %.2f, largest %llu updates\n",
                summary.staleness.mean(),
                static_cast<unsigned long long>(summary.staleness.largest));
  std::printf("weights_sha256 %s\n", summary.weights_sha256.c_str());
  std::fflush(stdout); // this process may be killed
}

int train(const train_arguments& given_arguments) {
  // Ctrl-C also ends a program that reads this output through a pipe. A write
  // to the closed pipe must not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  end_on_interrupts(); // until `fit` can save the run
  auto arguments = given_arguments;
  check_names(arguments);
  if (arguments.options.other_replicas && arguments.resume.empty())
    throw std::invalid_argument("--other-replicas: no run is resumed; give "
                                "--resume too, or leave it out");
  if (has_servers(arguments))
    return train_with_servers(arguments);
  check_has_no_servers(arguments);
  check_any_task(arguments);
  const auto placement = placement_from_environment(arguments.any_task);
  auto config = config_in(placement, arguments);
  const auto call_or_tell_others = [&](const auto& fn) {
    try {
      return fn();
    } catch (const std::exception& e) {
      if (placement.in_cluster)
        tell_others(e, config, placement.worker, arguments);
      throw;
    }
  };
  call_or_tell_others([&] {
    check_resumable(arguments, config);
    check_periodic_saves(arguments, config);
    check_monitor(config);
    check_restarts(arguments, config, placement.in_cluster);
    check_faults(arguments, config);
    check_device_of_any_task(arguments, config);
    if (placement.chief || config.workers == 1)
      check_outputs(arguments, config);
  });
  set_flight_directory(
    std::filesystem::path{arguments.save_path()}.parent_path());
  if (config.workers > 1 && !placement.in_cluster)
    return launch_workers(config, arguments);
  // The data is read before the join: the others would go on without a process
  // that has joined and cannot read its data.
  const auto [training, test] =
    call_or_tell_others([&] { return open_batches(config); });
  std::optional<runtime> actors;
  std::optional<strategy> joined;
  try {
    joined.emplace(make_strategy(config, placement.worker, arguments, actors));
  } catch (const spare_not_needed& e) {
    std::cerr << e.what() << '\n';
    return ok;
  }
  const auto& strategy = *joined;
  const auto scope = strategy.scope();
  auto model = make_model(arguments, config);
  const auto result =
    fit(model, training, fit_options_of(arguments, config, training, test),
        arguments, config);

  if (result.end == fit_end::left) {
    if (!arguments.quiet)
      std::cerr << "left the job after step " << model.steps()
                << "; the other workers go on\n";
    return ok;
  }
  const bool unfinished = is_unfinished(result);
  const auto unsaved = save_ended(arguments, config, model, unfinished);
  if (unfinished && arguments.summary.empty()) { // No evaluation is wanted.
    if (unsaved)
      std::rethrow_exception(unsaved);
    return interrupted;
  }
  train_summary summary{config, result};
  summary.steps = model.steps();
  summary.test = model.evaluate(test, {.metrics = metrics_of(config)});
  summary.weights_sha256 = model.weights_sha256();
  summary.transport = strategy.transport();
  run_on_chief(
    strategy.state(),
    [&] {
      if (!arguments.summary.empty())
        write_summary(summary, arguments.summary);
      if (!unfinished && !arguments.quiet)
        print_result(summary);
    },
    "the report of the run");
  if (unsaved)
    std::rethrow_exception(unsaved);
  return report_end(result);
}
