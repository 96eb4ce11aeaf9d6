#pragma once

#include "troupe/training/loop/train_step.hpp"

#include <chrono>

namespace troupe {

/// One call of `fit`. Each epoch is one run of the strategy's replicas; between
/// two epochs it evaluates, updates early stopping and calls the callbacks.
class fit_loop {
public:
  fit_loop(std::shared_ptr<model_state> state, const data::dataset& batches,
           const fit_options& options);

  history run();

private:
  using clock = std::chrono::steady_clock;

  void resume();
  fit_end run_epoch();
  void run(const run_request& request);
  void synchronize_workers();
  void on_commit_guarded(const commit_record& commit);
  void on_commit(const commit_record& commit);
  void call_step_callbacks(const commit_record& commit);
  /// Evaluates, records and reports the epoch that ended.
  /// @returns true if another epoch shall run.
  bool end_epoch();
  /// Updates early stopping with an epoch.
  void update_early_stopping(const epoch_record& record);
  /// True if early stopping's patience is exhausted.
  bool should_stop_early() const;
  void restore_best();
  progress_state progress_snapshot() const;

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  data::dataset batches_;
  const fit_options& options_;
  const std::shared_ptr<train_step> step_; ///< Shared with the replicas.
  progress progress_;
  fit_position position_;
  std::uint64_t steps_done_ = 0; ///< Steps of this call.

  // State of the current epoch.
  fit_end end_ = fit_end::done;
  std::optional<std::uint64_t> bad_step_;
  std::string bad_quantity_; ///< The value that was not finite in that step.
  clock::time_point last_commit_;
  std::exception_ptr thrown_; ///< Exception thrown by a callback.
};

/// Trains the model. It is shared, because a replica that is stuck in a step
/// may use it after the call has ended.
history fit(const std::shared_ptr<model_state>& state,
            const data::dataset& batches, const fit_options& options);

} // namespace troupe
