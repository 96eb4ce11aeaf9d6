#pragma once

#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_feed.hpp"
#include "troupe/training/loop/buckets.hpp"
#include "troupe/training/loop/metric_list.hpp"
#include "troupe/training/loop/model_state.hpp"

#include <array>
#include <deque>
#include <functional>
#include <optional>

namespace troupe {

/// Runs the steps of `fit` on the replicas of this process: forward pass,
/// backward pass and update. Each bucket of gradients is reduced as soon as the
/// backward pass has completed it. `fit` constructs one object, which
/// preallocates its buffers, so that a step allocates no memory from the
/// system. The object shares ownership of the model and the batches, because a
/// replica that is stuck in a step outlives the call of `fit`.
class train_step {
public:
  /// Target size of a bucket in bytes.
  static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

  /// Elements [begin, end) of the flat buffer of all parameters.
  struct element_range {
    std::size_t begin = 0, end = 0;
  };

  /// @errors throws std::invalid_argument for an invalid list of metrics, and
  ///         if `trainable` selects no variable.
  train_step(std::shared_ptr<model_state> model, const fit_options& options);

  /// Sets the source of the batches and releases the previous source. Null: no
  /// source.
  /// @pre no step runs.
  void set_batches(std::shared_ptr<batch_feed> feed) {
    feed_ = std::move(feed);
  }

  /// The metrics that a step reports.
  const metric_list& metrics() const { return metrics_; }

  /// Runs a step of one replica and sets the sums of `metrics()` in
  /// `step.report`. If the loss or the reduced gradient is not finite, the sum
  /// `skipped` is above 0 and no replica updates its parameters in that step.
  /// With `on_nan::stop` no replica updates them in any later step.
  /// @cost one read of the reduced gradient, in addition to the training step.
  void operator()(step_context& step);

  float learning_rate(std::uint64_t step) const;

  /// Makes the copies of this process equal after a failed run. In such a run,
  /// one replica may have made an update that another replica has not made. The
  /// replica with the most steps is copied to the other replicas of this
  /// process, and its step count becomes the model's step count. The replicas
  /// of other processes may have made more or fewer steps.
  /// @pre no step runs.
  void resync_replicas();

private:
  /// State of one replica.
  struct replica {
    tensor values, gradient; ///< [parameters::size()] float32
    /// State of the update rule for this replica's copy of the values.
    std::array<std::span<float>, 2> slots;
    /// Ranges of `gradient`, one for each bucket.
    std::vector<tensor> bucket_gradients;
    pooled<tensor> sums;
    bucket_tracker tracker;
    /// Called when a gradient is complete; contributes the buckets that become
    /// ready.
    tape::completed on_gradient_complete;
    step_context* step = nullptr;
    bool finite = true;
    bool stopped = false;
    /// Number of the model's steps that this replica has completed. Steps with
    /// a skipped update count too.
    std::uint64_t steps_done = 0;
  };

  void forward_and_backward(replica& self, const batch& rows);
  /// Marks the gradient of a parameter as complete, and contributes the buckets
  /// that become ready.
  void complete(replica& self, std::size_t parameter);
  void contribute(replica& self, std::uint32_t bucket);
  bool sum(replica& self);
  void update(replica& self, std::int64_t examples);

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  const std::optional<schedule> schedule_;
  const on_nan on_nan_;
  const metric_list metrics_;
  const std::vector<float> class_weights_;
  std::vector<variable> trained_; ///< The variables that the fit changes.
  /// By index in `trained_`: number of the parameter.
  std::vector<std::size_t> trained_index_;
  std::vector<std::size_t> frozen_index_; ///< Numbers of the other parameters.
  std::vector<element_range> frozen_ranges_;
  /// By bucket: the ranges of trained parameters in it. Without buckets there
  /// is one entry, for the whole buffer.
  std::vector<std::vector<element_range>> update_ranges_;
  std::shared_ptr<batch_feed> feed_;
  bool single_copy_; ///< True if several replicas share one copy of the values.
  /// First step that has not yet updated the single copy.
  std::uint64_t next_update_ = 0;
  /// Last step whose sums were checked for NaN and infinity.
  std::optional<std::uint64_t> scanned_step_;
  /// True if the sums of `scanned_step_` were finite. `scanned_step_` and
  /// `sums_finite_` are used only if `single_copy_` is true.
  bool sums_finite_ = true;
  std::deque<replica> replicas_; ///< Replicas of this process.
};

} // namespace troupe
