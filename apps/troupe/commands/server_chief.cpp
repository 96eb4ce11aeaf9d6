#include "troupe/apps/troupe/commands/server_chief.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/node_attempts.hpp"
#include "troupe/apps/troupe/base/run_data.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/apps/troupe/commands/server_lives.hpp"
#include "troupe/apps/troupe/commands/substitute_worker.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/job/train_summary.hpp"
#include "troupe/training/job/worker_task.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_status.hpp"
#include "troupe/training/parameter_server/server_training.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace troupe;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

/// Maximum time until all tasks of the cluster can be reached, at the start and
/// after the loss of a server.
constexpr auto start_timeout = 60s;
/// Time between attempts to connect to tasks that were lost.
constexpr std::chrono::milliseconds reconnect_interval = 200ms;

/// Waits until a node can be reached.
void wait_for_node(runtime& actors, const std::string& name,
                   const std::string& address, clock_type::time_point end) {
  for (;;) {
    try {
      const remote_node found{actors, address, {.name = chief_client_name}};
      return;
    } catch (const job_error& e) {
      if (!may_come(e) || clock_type::now() >= end)
        throw job_error{e.code, "cannot reach " + name + " at " + address + ": "
                                  + e.what()};
    }
    std::this_thread::sleep_for(attempt_interval);
  }
}

/// Tells a node to end, and waits until it has heard so.
void stop_node(runtime& actors, const std::string& name,
               const std::string& address) {
  try {
    remote_node node{
      actors, address, {.name = chief_client_name, .connect_timeout = 1s}};
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

/// Says that a run goes back to an earlier step.
/// @param lost the servers. Empty: a connection has ended.
/// @param kept step of the state that all servers get.
/// @param begun the last step that had begun, or with synchronous steps the
///              last one that was done.
std::string text_of_return(const std::vector<std::size_t>& lost,
                           const server_lives& lives, std::uint64_t kept,
                           std::uint64_t begun) {
  std::string out;
  for (const auto one : lost)
    out += (out.empty() ? "parameter server " : ", parameter server ")
           + std::to_string(one) + " at " + lives.address(one);
  if (out.empty())
    out = "the connection to a parameter server";
  out += (lost.size() > 1 ? " were lost and are" : " was lost and is");
  out += " there again; all parameter servers go back to step "
         + std::to_string(kept);
  const auto first = std::to_string(kept + 1);
  if (begun <= kept)
    return out + ", and no step is computed again";
  if (begun == kept + 1)
    return out + ", and step " + first + " is computed again";
  return out + ", and steps " + first + " to " + std::to_string(begun)
         + " are computed again";
}

/// Says that a run ends with an earlier state than its last one.
/// @param kept step of the state that is saved.
/// @param begun the last step that had begun, or with synchronous steps the
///              last one that was done.
std::string text_of_end(std::uint64_t kept, std::uint64_t begun) {
  const auto out = "; the run was told to end and is saved as it was after "
                   "step "
                   + std::to_string(kept);
  const auto first = std::to_string(kept + 1);
  if (begun <= kept)
    return out;
  if (begun == kept + 1)
    return out + ", without step " + first;
  return out + ", without the steps " + first + " to " + std::to_string(begun);
}

class chief {
public:
  chief(const train_arguments& arguments, const train_config& config,
        const net::cluster_spec& cluster, training_description describe)
    : arguments_{arguments},
      config_{config},
      address_{cluster.task_address("chief", 0)},
      servers_{addresses_of(cluster, "ps")},
      workers_{addresses_of(cluster, "worker")},
      snapshot_{load_snapshot()},
      architecture_{snapshot_ ? snapshot_->description()
                              : model_of(arguments, config)},
      // A server with copies is replaced by one of them.
      survives_losses_{arguments.restarts > 0 && config.replication == 1},
      data_{open_batches(config_)},
      lives_{actors_, servers_, arguments.restarts},
      summary_{config, {}} {
    if (snapshot_)
      last_snapshot_ = snapshot_->steps();
    if (arguments.max_steps > 0)
      last_step_ = last_snapshot_ + arguments.max_steps;
    register_server_training(actors_, std::move(describe));
  }

  int run() {
    wait_for_start();
    for (bool is_over = false; !is_over;) {
      try {
        train();
        is_over = true;
      } catch (const std::runtime_error& e) {
        if (ends_with_snapshot())
          return end_with_snapshot(e);
        if (!survives_losses_ || !has_loss())
          throw;
        const auto lost = wait_for_servers();
        if (!lost && ends_with_snapshot())
          return end_with_snapshot(e);
        if (!lost)
          throw;
        log(log_level::warning,
            text_of_return(*lost, lives_, last_snapshot_, begun_steps_));
      }
    }
    return finish();
  }

private:
  std::optional<model> load_snapshot() {
    check_outputs(arguments_, config_);
    if (!arguments_.init.empty())
      return new_model(arguments_, config_);
    if (arguments_.resume.empty())
      return std::nullopt;
    check_resumable(arguments_, config_);
    auto [loaded, is_previous] = load_resumed(arguments_);
    // A damaged file must not replace the version before it.
    file_is_of_run_ = arguments_.save.empty() && !is_previous;
    has_previous_version_ = arguments_.save.empty() && is_previous;
    return std::move(loaded);
  }

  void wait_for_start() {
    const auto end = clock_type::now() + start_timeout;
    for (std::size_t i = 0; i < servers_.size(); ++i)
      wait_for_node(actors_, "ps " + std::to_string(i), servers_[i], end);
    for (std::size_t i = 0; i < workers_.size(); ++i)
      wait_for_node(actors_, "worker " + std::to_string(i), workers_[i], end);
    if (survives_losses_)
      lives_.note_incarnations();
  }

  /// Trains from the snapshot on, to the end, and evaluates.
  /// @errors throws what `server_model::fit` throws, if a server is lost.
  void train() {
    const parameter_server_strategy strategy{
      actors_,
      {.workers = config_.workers,
       .partitioner =
         parameter_server::fixed_shards_partitioner(config_.servers),
       .nodes = servers_,
       .threads = config_.threads,
       .seed = config_.seed,
       .copies = config_.replication,
       .reconnect_interval = reconnect_interval}};
    serve_status(strategy);
    try {
      train_on(strategy);
    } catch (...) {
      is_connection_lost_ = survives_losses_ && !all_answer(strategy);
      throw;
    }
  }

  void train_on(const parameter_server_strategy& strategy) {
    server_model trained{strategy, server_variable_name, architecture_,
                         config_.rule(), model_options_of(config_)};
    if (snapshot_)
      trained.copy_from(*snapshot_);
    if (!survives_losses_)
      snapshot_.reset();
    if (config_.replication > 1 && !strategy.wait_for_copies(start_timeout))
      throw job_error{ec::stalled,
                      "the copies of the servers do not have their state after "
                        + std::to_string(start_timeout.count()) + " s"};
    const auto coordinator = make_coordinator(strategy);
    std::optional<substitute_worker> substitute;
    if (status_)
      substitute.emplace(*coordinator, address_,
                         [this] { return is_stopped(); });
    if (!is_trained_)
      fit(trained, *coordinator);
    begun_steps_ = trained.steps();
    if (is_unfinished(summary_.result) && arguments_.summary.empty())
      return; // no summary is wanted, so no evaluation
    summary_.staleness = {};
    for (const auto& server : strategy.status())
      summary_.staleness += server.staleness;
    summary_.lost_servers = lives_.losses();
    if (config_.replication > 1) {
      const auto copies = strategy.copies();
      summary_.copies_in_sync = copies.in_sync;
      summary_.lost_servers = copies.lost_nodes;
    }
    summary_.steps = trained.steps();
    summary_.test = trained.evaluate(*coordinator, data_.test,
                                     {.metrics = metrics_of(config_)});
    summary_.weights_sha256 = trained.weights_sha256();
    summary_.transport = "tcp";
  }

  /// Makes the coordinator. If no worker can be reached, waits for one: all may
  /// have been lost with a server.
  std::unique_ptr<cluster_coordinator>
  make_coordinator(const parameter_server_strategy& strategy) {
    const auto end = clock_type::now() + start_timeout;
    for (;;) {
      try {
        return std::make_unique<cluster_coordinator>(
          strategy,
          coordinator_options{
            // In an evaluation a worker begins its next batch while the last
            // one is recorded.
            .in_flight = 2,
            .nodes = workers_,
            .closures = server_training_closures,
            .arguments = write_worker_task(
              {to_options(config_), architecture_, describe(data_)}),
            .reconnect_interval = reconnect_interval});
      } catch (const job_error& e) {
        if (!may_come(e) || is_stopped() || clock_type::now() >= end)
          throw;
      }
      std::this_thread::sleep_for(attempt_interval);
    }
  }

  void fit(server_model& trained, cluster_coordinator& coordinator) {
    try {
      summary_.result =
        trained.fit(coordinator, data_.training, options_of(trained));
    } catch (...) {
      begun_steps_ = trained.steps();
      throw;
    }
    begun_steps_ = trained.steps();
    const bool is_saved =
      is_unfinished(summary_.result) || arguments_.names_file();
    if (is_saved || survives_losses_) {
      auto copy = copy_of(trained);
      if (is_saved)
        save(copy);
      if (!is_unfinished(summary_.result))
        remove_previous_version();
      keep(std::move(copy));
    }
    is_trained_ = true;
    if (is_unfinished(summary_.result) && !arguments_.quiet)
      print_interrupted(arguments_, trained.steps());
  }

  server_fit_options options_of(const server_model& trained) {
    if (!stop_) // an interrupt before ends this process
      stop_ = watch_for_interrupts().stop;
    const bool has_pauses = arguments_.save_steps > 0
                            && (arguments_.names_file() || survives_losses_);
    const bool saves_each_epoch =
      arguments_.evaluator || (survives_losses_ && arguments_.save_steps == 0);
    const auto saved_epochs = saves_each_epoch ? 1 : arguments_.save_epochs;
    server_fit_options out{
      .epochs = config_.epochs,
      .validation = data_.test,
      .metrics = metrics_of(config_),
      .schedule = config_.learning_rate_schedule(
        config_.epochs * data_.training.size().value_or(1)),
      .on_nan = config_.on_nan,
      .max_steps = last_step_ > 0 ? last_step_ - trained.steps() : 0,
      .pause_steps = has_pauses ? arguments_.save_steps : 0,
      .on_pause = [&] { take_snapshot(trained); },
      .stop = stop_,
      .resume = !arguments_.resume.empty() || last_snapshot_ > 0,
      .progress =
        arguments_.quiet ? progress_style::none : progress_style::automatic,
      .consistency = config_.consistency_rule(),
      .table_consistency = config_.table_consistency_rule(),
      .replicas = config_.replicas,
      .on_dropped =
        [](const dropped_contribution& x) {
          log(log_level::info,
              "step " + std::to_string(x.step)
                + ": the contribution of replica " + std::to_string(x.replica)
                + " came too late; its " + std::to_string(x.examples)
                + (x.has_updated_tables ? " examples count for the tables only"
                                        : " examples do not count"));
        }};
    if (saved_epochs > 0)
      out.on_epoch_end = [&, saved_epochs](const epoch_record& x) {
        if (x.epoch < config_.epochs && x.epoch % saved_epochs == 0
            && trained.steps() != last_step_)
          take_snapshot(trained); // else the end of the fit does so
      };
    return out;
  }

  model copy_of(const server_model& trained) const {
    model out{architecture_, config_.rule(), model_options_of(config_)};
    trained.copy_to(out);
    return out;
  }

  void save(const model& copy) {
    const auto file = arguments_.save_path();
    if (file_is_of_run_ && keep_previous_version(file))
      has_previous_version_ = true;
    copy.save(file, write_train_options(to_options(config_)));
    file_is_of_run_ = true;
  }

  void remove_previous_version() {
    std::error_code ignored;
    if (std::exchange(has_previous_version_, false))
      std::filesystem::remove(previous_version_of(arguments_.save_path()),
                              ignored);
  }

  void keep(model copy) {
    last_snapshot_ = copy.steps();
    if (survives_losses_)
      snapshot_ = std::move(copy);
  }

  /// Copies the state while no step runs. A file that cannot be written does
  /// not end the run.
  void take_snapshot(const server_model& trained) {
    if (trained.steps() == last_snapshot_)
      return;
    auto copy = copy_of(trained);
    if (arguments_.names_file())
      try {
        save(copy);
      } catch (const std::runtime_error& e) {
        log(log_level::warning,
            std::string{e.what()} + "; the run goes on without this file");
      }
    keep(std::move(copy));
  }

  static bool all_answer(const parameter_server_strategy& strategy) {
    try {
      static_cast<void>(strategy.status());
      return true;
    } catch (const job_error&) {
      return false;
    }
  }

  /// True if the run has failed because a server was lost. The error does not
  /// always say so: it is that of a worker if the worker has noticed it first.
  bool has_loss() {
    if (std::exchange(is_connection_lost_, false))
      return true;
    try {
      return lives_.has_loss();
    } catch (const job_error& e) { // the error of the run says more
      log(log_level::warning, e.what());
      return false;
    }
  }

  /// @returns as `server_lives::wait_for_all`; also nothing if a server refuses
  ///          this process.
  std::optional<std::vector<std::size_t>> wait_for_servers() {
    try {
      return lives_.wait_for_all(clock_type::now() + start_timeout,
                                 [this] { return is_stopped(); });
    } catch (const job_error& e) {
      log(log_level::warning, e.what());
      return std::nullopt;
    }
  }

  bool is_stopped() const {
    const auto* const stop = stop_.load();
    return stop && *stop;
  }

  /// True if the run was told to end, has failed, and can be continued from the
  /// last state that was kept.
  bool ends_with_snapshot() const {
    return survives_losses_ && is_stopped() && snapshot_
           && snapshot_->interrupted();
  }

  /// Ends a run for which `ends_with_snapshot` is true. No summary is written.
  int end_with_snapshot(const std::runtime_error& error) {
    if (is_trained_) { // the state is saved
      log(log_level::warning,
          std::string{error.what()} + "; the run is saved, but not evaluated");
      return interrupted;
    }
    log(log_level::warning,
        error.what() + text_of_end(last_snapshot_, begun_steps_));
    save(*snapshot_);
    if (!arguments_.quiet)
      print_interrupted(arguments_, snapshot_->steps());
    return interrupted;
  }

  int finish() {
    status_.reset();
    if (!arguments_.summary.empty())
      write_summary(summary_, arguments_.summary);
    if (is_unfinished(summary_.result))
      return interrupted; // workers and servers wait for the next chief
    if (!arguments_.quiet)
      print_result(summary_);
    for (std::size_t i = 0; i < workers_.size(); ++i)
      stop_node(actors_, "worker " + std::to_string(i), workers_[i]);
    for (std::size_t i = 0; i < servers_.size(); ++i)
      stop_node(actors_, "ps " + std::to_string(i), servers_[i]);
    return report_end(summary_.result);
  }

  /// Answers `troupe status`. If this process cannot listen, the run goes on
  /// without it.
  void serve_status(const parameter_server_strategy& strategy) {
    register_server_status(strategy);
    if (std::exchange(has_served_status_, true))
      return;
    try {
      status_ = std::make_unique<node_server>(
        actors_, node_server_options{.listen = address_, .name = "chief 0"});
    } catch (const std::exception& e) {
      log(log_level::warning, "`troupe status` cannot ask the chief at "
                                + address_ + ": " + e.what());
    }
  }

  const train_arguments& arguments_;
  train_config config_; ///< Configuration with the columns of `data_`.
  const std::string address_;
  const std::vector<std::string> servers_, workers_; ///< Their addresses.
  bool file_is_of_run_ = false; ///< The file has a state of this run.
  bool has_previous_version_ = false;
  /// The state from which the run goes on after the loss of a server. None: it
  /// begins.
  std::optional<model> snapshot_;
  /// The model by value: its file may change during the run.
  const models::model_description architecture_;
  std::uint64_t last_snapshot_ = 0; ///< Its step.
  const bool survives_losses_;
  const run_data data_;
  runtime actors_;
  server_lives lives_;
  std::unique_ptr<node_server> status_;
  bool has_served_status_ = false;
  /// Another thread may read it.
  std::atomic<const std::atomic<bool>*> stop_ = nullptr;
  /// Last step by `--max-steps`. Zero: there is no limit.
  std::uint64_t last_step_ = 0;
  std::uint64_t begun_steps_ = 0;
  bool is_connection_lost_ = false;
  bool is_trained_ = false; ///< The fit has ended, and its state is kept.
  train_summary summary_;
};

} // namespace

int lead_with_servers(const train_arguments& arguments,
                      const train_config& config,
                      const net::cluster_spec& cluster,
                      const training_description& describe) {
  return chief{arguments, config, cluster, describe}.run();
}
