#pragma once

#include "troupe/training/loop/train_step.hpp"

#include <chrono>

namespace troupe {

/// One call of `fit`. Each epoch is one run of the strategy's replicas; between
/// two epochs it evaluates, updates early stopping and calls the callbacks.
class fit_loop {
public:
  fit_loop(std::shared_ptr<model_state> it, const data::dataset& batches,
           const fit_options& options);

  history run();

private:
  using clock = std::chrono::steady_clock;

  void take_up();
  fit_end run_pass();
  void run(const work& all);
  void agree();
  void hear(const commit_record& x);
  void on_commit(const commit_record& x);
  void tell_step(const commit_record& x);
  /// Evaluates, records and reports the epoch that ended.
  /// @returns true if another epoch shall run.
  bool end_pass();
  /// Updates early stopping with an epoch.
  void judge(const epoch_record& x);
  /// True if early stopping's patience is exhausted.
  bool gives_up() const;
  void restore_best();
  progress_state shown() const;

  const std::shared_ptr<model_state> shared_;
  model_state& it_;
  data::dataset batches_;
  const fit_options& options_;
  const std::shared_ptr<train_step> step_; ///< Shared with the replicas.
  progress shown_;
  fit_position at_;
  std::uint64_t done_ = 0; ///< Steps of this call.

  // State of the current epoch.
  fit_end end_ = fit_end::done;
  std::optional<std::uint64_t> bad_step_;
  std::string bad_what_; ///< The value that was not finite in that step.
  clock::time_point last_;
  std::exception_ptr thrown_; ///< Exception thrown by a callback.
};

} // namespace troupe
