#include "train.hpp"

#include "command.hpp"
#include "interrupt.hpp"
#include "option_parsing.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/train_summary.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/multi_worker.hpp"
#include "troupe/training/support/atomic_file.hpp"
#include "troupe/training/support/log.hpp"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>

namespace {

using namespace troupe;

constexpr std::uint64_t test_batch = 256;

transport_kind transport_of(const settled_job& x) {
  return x.transport == "shm"   ? transport_kind::shm
         : x.transport == "tcp" ? transport_kind::tcp
         : x.transport == "tls" ? transport_kind::tls
                                : transport_kind::automatic;
}

strategy make_strategy(const settled_job& x, std::optional<runtime>& actors) {
  runtime_options options;
  options.log = [](const std::string& line) { log(log_level::warning, line); };
  if (x.strategy == "mirrored")
    return mirrored_strategy{
      actors.emplace(options), x.devices, {.threads = x.threads}};
  if (x.strategy == "multi_worker_mirrored")
    return multi_worker_mirrored_strategy{actors.emplace(options),
                                          tf_config(),
                                          {.devices = x.devices,
                                           .threads = x.threads,
                                           .transport = transport_of(x)}};
  return one_device_strategy{x.devices.front(),
                             {.replicas = x.replicas, .threads = x.threads}};
}

void check_names(const train_arguments& x) {
  check_differ("--summary", x.summary, "--save", x.save);
  check_differ("--summary", x.summary, "--resume", x.resume);
  check_differ("--summary", x.summary, "an interrupted run", x.rescue());
}

/// Checks that the output files can be written, before training instead of
/// after it.
void check_outputs(const train_arguments& x) {
  if (!x.save.empty() || !x.resume.empty())
    check_writable(x.rescue());
  if (!x.summary.empty())
    check_writable(x.summary);
}

settled_job job_of(const train_arguments& x) {
  if (x.resume.empty())
    return settle(x.job);
  return settle(resumed(read_job(saved_note(x.resume)), x.job));
}

/// Placement of this process in a cluster, as TF_CONFIG says.
struct place {
  bool in_cluster = false;
  std::uint64_t workers = 1;
  bool chief = true;
};

place place_by_environment() {
  const auto config = tf_config();
  const auto cluster = config.cluster_spec();
  const auto task = config.task();
  if (cluster.empty() || !task)
    return {};
  if (task->type != "chief" && task->type != "worker")
    throw std::invalid_argument("TF_CONFIG: task.type is " + task->type
                                + ", but only a chief or a worker can train");
  return {true, net::worker_count(cluster, *task),
          net::is_chief(cluster, *task)};
}

/// Resolves the options. In a cluster, the number of workers defaults to that
/// of the cluster and may not differ from it.
settled_job job_in(const place& here, train_arguments x) {
  constexpr auto over_workers = "multi_worker_mirrored";
  if (here.in_cluster && !x.job.workers && x.job.strategy == over_workers)
    x.job.workers = static_cast<std::int64_t>(here.workers);
  auto job = job_of(x);
  if (here.in_cluster && job.strategy == over_workers
      && job.workers != here.workers)
    throw std::invalid_argument(
      "--workers " + std::to_string(job.workers) + ": TF_CONFIG names "
      + std::to_string(here.workers) + "; give --workers "
      + std::to_string(here.workers));
  if (here.workers > 1 && job.strategy != over_workers)
    log(log_level::warning, "TF_CONFIG names " + std::to_string(here.workers)
                              + " workers, but --strategy " + job.strategy
                              + " trains in this process alone; give "
                                "--strategy "
                              + over_workers + " to train on all of them");
  return job;
}

model make_model(const train_arguments& x, const settled_job& job) {
  return x.resume.empty()
           ? model{models::find(job.model), job.rule(), {.seed = job.seed}}
           : model::load(x.resume);
}

void check_epochs(const model& it, const settled_job& job) {
  if (const auto done = it.epochs_done(); job.epochs <= done)
    throw std::invalid_argument(
      "--epochs " + std::to_string(job.epochs) + ": the run has completed "
      + std::to_string(done) + (done == 1 ? " epoch" : " epochs")
      + "; give more");
}

fit_options options_of(const train_arguments& x, const settled_job& job,
                       const data::dataset& training,
                       const data::dataset& test) {
  fit_options options;
  options.epochs = job.epochs;
  options.validation = test;
  options.schedule = job.rates(job.epochs * training.size().value_or(1));
  if (job.patience > 0)
    options.early_stopping = early_stopping{.patience = job.patience};
  options.progress = x.quiet ? progress_style::none : progress_style::automatic;
  options.on_nan = job.on_nan;
  options.max_steps = x.max_steps;
  options.stop = &watch_for_interrupts();
  options.resume = !x.resume.empty();
  return options;
}

void say_result(const train_summary& x) {
  char loss[32] = "is not finite";
  if (std::isfinite(x.test.loss))
    std::snprintf(loss, sizeof loss, "%.4f", x.test.loss);
  std::printf("test accuracy %.4f  test loss %s  %.0f examples/s\n"
              "weights_sha256 %s\n",
              x.test.accuracy, loss, x.examples_per_second(),
              x.weights_sha256.c_str());
}

void rescue(const train_arguments& x, const settled_job& job, const model& it) {
  it.save(x.rescue(), write_job(given_by(job)));
  if (!x.quiet)
    std::cerr << "interrupted after step " << it.steps() << "; continue with: "
              << "troupe train --resume " << x.rescue() << '\n';
}

bool is_unfinished(const history& x) {
  return x.end == fit_end::interrupted || x.end == fit_end::max_steps;
}

} // namespace

int train(const train_arguments& given) {
  // Ctrl-C also ends the reader of this output. A write to a closed pipe must
  // not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  end_on_interrupts(); // until `fit` can save the run
  auto x = given;
  check_names(x);
  const auto here = place_by_environment();
  const auto job = job_in(here, x);
  const bool leads = here.chief || job.workers == 1;
  if (leads)
    check_outputs(x);
  if (job.workers > 1 && !here.in_cluster)
    return train_in_processes(job);
  x.quiet = x.quiet || !leads;
  std::optional<runtime> actors;
  const auto strategy = make_strategy(job, actors);
  const auto scope = strategy.scope();
  auto it = make_model(x, job);
  check_epochs(it, job);
  const auto [examples, test_examples] = open_data(job.data);
  const auto training =
    examples.shuffle(data::whole, job.seed).batch(job.batch);
  const auto test = test_examples.batch(test_batch);
  const auto done = it.fit(training, options_of(x, job, training, test));

  const bool unfinished = is_unfinished(done);
  if (unfinished)
    rescue(x, job, it);
  else if (!x.save.empty() || !x.resume.empty())
    it.save(x.rescue(), write_job(given_by(job)));
  if (unfinished && x.summary.empty())
    return interrupted; // no summary is wanted, so no evaluation
  train_summary summary{job, done};
  summary.steps = it.steps();
  summary.test = it.evaluate(test);
  summary.weights_sha256 = it.weights_sha256();
  summary.transport = strategy.transport();
  if (!x.summary.empty() && leads)
    write_summary(summary, x.summary);
  if (!unfinished && !x.quiet)
    say_result(summary);
  return unfinished ? interrupted : ok;
}
