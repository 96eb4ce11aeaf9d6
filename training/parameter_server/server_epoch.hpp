#pragma once

#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/progress.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_batches.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_network.hpp"
#include "troupe/training/parameter_server/server_tasks.hpp"
#include "troupe/training/parameter_server/staleness_warning.hpp"
#include "troupe/training/parameter_server/synchronous_steps.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {

/// A fit was told to stop, and its closures cannot end, as there is no worker.
struct no_worker_left : std::runtime_error {
  no_worker_left()
    : std::runtime_error{"the fit was told to stop, and no worker is left that "
                         "could end its steps"} {}
};

/// Trains a `server_model` on batches of one epoch, or evaluates it. A training
/// of the servers lasts from the first batch to the last one.
///
///   synchronous  one closure for each replica makes all of its steps. This
///                process is the chief, which decides them. A fit that is told
///                to stop decides no further step
///   otherwise    closures make some steps of a replica at a time, one closure
///                after the other for each replica. A fit that is told to stop
///                waits for these steps, and lets each replica make as many as
///                the one that has got most. So no batch is left out
class server_epoch {
public:
  /// @param first      the first batch on which it trains.
  /// @param first_step number of the step of this batch.
  /// @param shown     Null: no progress is shown.
  /// @param staleness gets the losses of the steps. Null: no effect.
  server_epoch(cluster_coordinator& coordinator,
               std::shared_ptr<const server_network> network,
               std::shared_ptr<const server_batches> batches,
               const server_fit_options& options, const data::position& first,
               std::uint64_t first_step, progress* shown,
               staleness_warning* staleness = nullptr);

  /// Trains on the batches of the epoch, from the first one on.
  /// @param replicas  above 0.
  /// @param max_steps above 0.
  /// @param totals    sums over the steps of the epoch before the first batch.
  /// @returns the sums over all steps of the epoch that count.
  /// @errors as `server_model::fit`
  epoch_totals train(std::uint32_t replicas, std::uint64_t max_steps,
                     epoch_totals totals);
  /// Evaluates all batches of the validation data.
  epoch_totals score();

  /// Number of steps so far. After an error, no later step has begun.
  std::uint64_t steps() const { return steps_; }

private:
  using result = remote_value<tensors>;
  /// The steps of one replica, without a chief.
  struct step_share {
    std::uint64_t steps = 0;  ///< That the replica has to make.
    std::uint64_t done = 0;   ///< Steps whose metrics are known.
    std::uint64_t end = 0;    ///< Its closures have got the steps below it.
    std::uint64_t length = 1; ///< Steps of the next closure.
    std::chrono::steady_clock::time_point begun{};
    std::optional<result> running{}; ///< The closure that makes them.
  };

  void end_after_error() const;
  void train_with_clocks();
  void begin_share(std::uint32_t replica);
  void end_share(std::uint32_t replica);
  void count_done();

  void train_synchronously();
  synchronous_steps::options options_of_steps() const;
  lead_training chief_of(const std::shared_ptr<synchronous_steps>& steps) const;
  result
  schedule_synchronous(std::uint32_t replica,
                       const std::shared_ptr<synchronous_steps>& steps) const;
  void wait_for_decisions(synchronous_steps& steps,
                          const std::vector<result>& replicas);
  void count(const synchronous_steps::news& x);

  void begin_training();
  void end_training(std::chrono::milliseconds timeout) const;
  train_task task_of(std::uint32_t replica, std::uint64_t begin,
                     std::uint64_t end) const;
  result schedule(train_task what, closure_options options) const;
  result schedule(score_task what) const;
  bool is_stopped() const;
  float learning_rate(std::uint64_t step) const;
  /// Adds the metrics of a step. @errors as `server_model::fit`.
  void count(const step_metrics& report, std::uint64_t step);
  void report_not_finite(const std::string& text,
                         const std::string& effect) const;
  bool wait_for_some(std::span<const result> some, std::size_t count,
                     std::chrono::milliseconds timeout);
  void wait_for_all(const std::vector<result>& all);

  cluster_coordinator& coordinator_;
  const std::shared_ptr<const server_network> network_;
  const std::shared_ptr<const server_batches> batches_;
  const server_fit_options& options_;
  /// None: the tables have the consistency of the other parameters.
  const std::optional<parameter_server::consistency> table_consistency_;
  const data::position first_;
  const std::uint64_t first_step_;
  progress* const shown_;
  staleness_warning* const staleness_;
  std::uint64_t size_ = 0;  ///< Batches of the epoch.
  std::uint64_t count_ = 0; ///< Batches on which it trains.
  std::uint64_t steps_ = 0;
  std::uint64_t training_ = 0; ///< Number of the training.
  std::uint32_t replicas_ = 1;
  std::vector<step_share> shares_; ///< By replica.
  /// Metrics by batch, and how many were counted. Unused by synchronous steps.
  std::vector<step_metrics> metrics_;
  std::uint64_t counted_ = 0;
  /// Time without a worker since the fit was told to stop.
  std::chrono::milliseconds without_worker_{0};
  epoch_totals totals_;
};

} // namespace troupe
