#pragma once

#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_feed.hpp"
#include "troupe/training/loop/buckets.hpp"
#include "troupe/training/loop/model_state.hpp"

#include <array>
#include <deque>
#include <functional>
#include <optional>

namespace troupe {

/// One step of `fit` for one replica: forward, backward, reduction of the
/// gradients as they complete, and update. It is constructed once per fit and
/// preallocates, so that a step allocates no memory from the system. It owns
/// what it uses, because a replica that is stuck in a step outlives the call of
/// `fit`.
class train_step {
public:
  /// Bytes of gradient that are reduced as one tensor.
  static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

  train_step(std::shared_ptr<model_state> model, const fit_options& options);

  /// Sets the source of the batches and destroys the previous one. Null: none.
  /// @pre no step runs.
  void set_batches(std::shared_ptr<batch_feed> feed) {
    feed_ = std::move(feed);
  }

  /// Runs a step and fills in its metrics. If the loss or the reduced gradient
  /// is not finite, the metric `correct` is NaN and no replica updates its
  /// parameters in that step. With `on_nan::stop` no replica updates them in
  /// any later step.
  /// @cost in addition to the step: one read of the gradient.
  void operator()(step_context& step);

  float learning_rate(std::uint64_t step) const;

  /// Makes the copies of this process equal after a run that failed: a replica
  /// may be one update ahead of another. Copies the state of the replica with
  /// most steps to the others, and takes over its step count. Replicas of other
  /// processes may have made more or fewer steps.
  /// @pre no step runs.
  void resync_replicas();

private:
  /// State of one replica.
  struct replica {
    tensor values, gradient; ///< [size]
    /// State of the update rule for its copy.
    std::array<std::span<float>, 2> slots;
    /// Ranges of the gradient, by bucket.
    std::vector<tensor> bucket_gradients;
    pooled<tensor> sums;
    bucket_tracker tracker;
    /// Contributes buckets that became ready.
    tape::completed on_gradient_complete;
    step_context* step = nullptr;
    bool finite = true;
    bool stopped = false;
    std::uint64_t steps_done = 0; ///< Steps completed, including skipped ones.
  };

  void forward_and_backward(replica& self, const batch& rows);
  void contribute(replica& self, std::uint32_t bucket);
  bool sum(replica& self);
  void update(replica& self, std::int64_t examples);

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  const std::optional<schedule> schedule_;
  const on_nan on_nan_;
  std::shared_ptr<batch_feed> feed_;
  bool single_copy_; ///< True if several replicas have one copy of the values.
  /// First step that did not update the single copy.
  std::uint64_t next_update_ = 0;
  /// Last step whose sums were scanned.
  std::optional<std::uint64_t> scanned_step_;
  /// True if the sums of `scanned_step_` were finite. With several copies,
  /// `scanned_step_` and `sums_finite_` are unused.
  bool sums_finite_ = true;
  std::deque<replica> replicas_; ///< Replicas of this process.
};

} // namespace troupe
