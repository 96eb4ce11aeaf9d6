#pragma once

#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/progress.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_network.hpp"

#include <cstddef>
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

/// Schedules the closures of one epoch, or of one evaluation, of a
/// `server_model`, in the order that the kind of consistency demands.
class server_epoch {
public:
  /// @param first      the first batch on which it trains.
  /// @param first_step number of the step of this batch.
  /// @param shown Null: no progress is shown.
  server_epoch(cluster_coordinator& coordinator,
               std::shared_ptr<const server_network> network,
               std::shared_ptr<const server_batches> batches,
               const server_fit_options& options, const data::position& first,
               std::uint64_t first_step, progress* shown);

  /// Trains on the batches of the epoch, from the first one on. If it is told
  /// to stop, it trains on all batches before the last one that has begun.
  /// @param replicas  above 0.
  /// @param max_steps above 0.
  /// @param totals    sums over the steps of the epoch before the first batch.
  /// @returns the sums over all steps of the epoch that count.
  /// @errors as `server_model::fit`
  epoch_totals train(std::uint32_t replicas, std::uint64_t max_steps,
                     epoch_totals totals);
  /// Evaluates all batches of the validation data.
  epoch_totals score();

  /// Number of steps so far.
  std::uint64_t steps() const { return steps_; }

private:
  using result = remote_value<tensors>;
  /// A contribution that was not waited for.
  struct late_result {
    std::uint64_t step = 0;
    std::uint32_t replica = 0;
    result metrics;
  };

  batch_task task(batch_task::kind what, std::uint64_t index) const;
  result schedule(const batch_task& what) const;
  step_metrics metrics_of(const result& from) const;
  bool is_stopped() const;
  std::uint64_t step_of(std::uint64_t index) const;
  float learning_rate(std::uint64_t step) const;
  /// Adds the metrics of a step. @errors as `server_model::fit`.
  void count(const step_metrics& report, std::uint64_t step);
  /// True if the loss and gradient of a report are finite. Else says so.
  /// @errors throws std::runtime_error if they are not (`on_nan::stop`).
  bool check_finite(const step_metrics& report, std::uint64_t step) const;
  /// True if the loss and gradient of a late replica are finite. Else says so.
  /// @errors throws std::runtime_error if they are not (`on_nan::stop`).
  bool check_finite_late(const step_metrics& report,
                         const late_result& late) const;
  /// @errors throws std::runtime_error if a fit ends for this (`on_nan::stop`).
  void report_not_finite(const std::string& subject,
                         const std::string& effect) const;
  void schedule_step(std::uint64_t index);
  void wait_for_some(std::span<const result> some, std::size_t count) const;
  /// True if the step of a batch is done, or was before this object.
  bool is_over(std::uint64_t index) const;
  /// Counts the results that are there, in their order.
  void count_results();
  /// Waits until all closures are done, and counts them.
  void count_all_results();
  void train_asynchronously(std::uint32_t replicas);
  void train_with_bound(std::uint32_t replicas);
  void train_synchronously(std::uint32_t replicas);
  void wait_for_tables(std::uint64_t step);
  void list_late_results();

  cluster_coordinator& coordinator_;
  const std::shared_ptr<const server_network> network_;
  const std::shared_ptr<const server_batches> batches_;
  const server_fit_options& options_;
  /// None: the tables have the consistency of the other parameters.
  const std::optional<parameter_server::consistency> table_rule_;
  const data::position first_;
  const std::uint64_t first_step_;
  progress* const shown_;
  std::uint64_t size_ = 0; ///< Batches of the epoch.
  std::uint64_t end_ = 0;  ///< No step begins from this batch on.
  std::uint64_t steps_ = 0;
  /// By batch. None: it is not scheduled. Unused by synchronous steps.
  std::vector<std::optional<result>> results_;
  std::uint64_t counted_; ///< All batches before it were counted.
  std::vector<late_result> late_;
  epoch_totals totals_;
};

} // namespace troupe
