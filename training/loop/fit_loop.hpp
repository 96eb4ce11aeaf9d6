#pragma once

#include "troupe/training/loop/train_step.hpp"

#include <chrono>

namespace troupe {

/// One call of `fit`: passes over the data, each of them one piece of work for
/// the strategy's replicas, and what happens between them.
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
  /// @returns whether another pass is worth it.
  bool end_pass();
  /// Early stopping looks at an epoch.
  void judge(const epoch_record& x);
  /// Whether it has waited long enough.
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

  // Of the pass that runs.
  fit_end end_ = fit_end::done;
  std::optional<std::uint64_t> bad_step_;
  std::string bad_what_; ///< What was not finite in it.
  clock::time_point last_;
  std::exception_ptr thrown_; ///< By a callback.
};

} // namespace troupe
