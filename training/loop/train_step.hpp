#pragma once

#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_feed.hpp"
#include "troupe/training/loop/buckets.hpp"
#include "troupe/training/loop/copy_update.hpp"
#include "troupe/training/loop/metric_list.hpp"
#include "troupe/training/loop/model_state.hpp"
#include "troupe/training/loop/parameter_audit.hpp"
#include "troupe/training/loop/shared_update.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// Runs the steps of `fit` on the replicas of this process: forward pass,
/// backward pass and update. In a job of one process, the replicas share the
/// parameters, and one pass reduces the gradients and updates the parameters
/// (shared_update.hpp). In a job of several processes, each bucket of gradients
/// is reduced as soon as the backward pass has completed it, and each replica
/// updates its copy of the parameters. `fit` constructs one object, which
/// preallocates its buffers, so that a step allocates no memory from the
/// system. The object shares ownership of the model and the batches, because a
/// replica that is stuck in a step outlives the call of `fit`.
class train_step {
public:
  /// Target size of a bucket in bytes.
  static constexpr std::size_t bucket_bytes = std::size_t{1} << 20;

  /// @param audit compares the copies of the state in some of the steps. Null:
  ///        no audits.
  /// @errors throws std::invalid_argument for an invalid list of metrics, if
  ///         `trainable` selects no variable, and for a model with tables in a
  ///         job of several processes or on a device.
  train_step(std::shared_ptr<model_state> model, const fit_options& options,
             std::shared_ptr<parameter_audit> audit = nullptr);

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
  /// @cost one read of the gradient, in addition to the training step.
  void operator()(step_context& step);

  float learning_rate(std::uint64_t step) const;

  /// In a process that joins, makes a part of an update that the members have
  /// made, in the first copy of the state.
  /// @param step     number of the step.
  /// @param examples of its global batch.
  /// @param first    first element of the part.
  /// @param sums     summed gradient of the elements from `first` on.
  void follow(std::uint64_t step, std::uint64_t examples, float rate,
              std::uint64_t first, std::span<const float> sums);

  /// After a failed run, makes the copies of this process equal to the copy of
  /// the replica with the most steps. Replicas that share one copy have made
  /// each update as a whole; of several copies, one may have made an update
  /// that another has not made. The replicas of other processes may have made
  /// more or fewer steps.
  /// @returns the number of the model's steps that this replica has completed.
  /// @pre no step runs.
  std::uint64_t resync_replicas();

  /// True if the totals of the steps are known without the chief.
  bool keeps_totals() const { return !totals_.empty(); }
  /// Returns the metrics of a step, summed over all replicas of the job. Each
  /// process knows the metrics of the last `2 * max_steps_ahead() + 2` steps
  /// that it has completed.
  /// @pre `keeps_totals`, no step runs, and the step is one of these.
  step_metrics total_of(std::uint64_t step) const;

private:
  /// State of one replica.
  struct replica {
    tensor gradient; ///< [parameters::size()] float32
    /// Called when a gradient is complete.
    tape::completed on_gradient_complete;
    step_context* step = nullptr;
    bool finite = true; ///< True if the loss is finite.
    /// True if the gradients that are complete have finite sums. Unused without
    /// a shared update.
    bool finite_sums = true;
    bool stopped = false;
    // The members below are unused with a shared update.
    tensor values;                     ///< [parameters::size()] float32
    std::optional<copy_update> update; ///< Of this replica's copy.
    /// What the replica contributes, one for each bucket: ranges of `gradient`,
    /// or memory of the CPU to which they are copied.
    std::vector<tensor> bucket_gradients;
    pooled<tensor> sums;
    /// [1 + number of sums] float64: examples and sums. With audits, the
    /// report of this replica's copy follows.
    tensor own_metrics;
    std::vector<copy_report> reports;  ///< Of an audit, by replica of the job.
    std::vector<step_metrics> metrics; ///< Of the step, by replica of the job.
    bucket_tracker tracker;
    /// Number of the model's steps that this replica has completed. Steps with
    /// a skipped update count too.
    std::uint64_t steps_done = 0;
  };

  void prepare_buckets(const std::vector<bool>& trained);
  void set_zero_gradient(replica& self);
  void forward_and_backward(replica& self, const batch& rows);
  /// Marks the gradient of a parameter as complete. With a shared update,
  /// checks its elements. Otherwise contributes the buckets that become ready.
  void complete(replica& self, std::size_t parameter);
  void contribute(replica& self, std::uint32_t bucket);
  bool sum(replica& self);
  /// Gathers the metrics of all replicas.
  /// @returns false if the step has an audit, and the copies differ.
  bool gather_metrics(replica& self);
  /// Keeps the total of a step, as the chief computes it.
  /// @param metrics of all replicas.
  void keep_total(std::uint64_t step, std::span<const step_metrics> metrics,
                  bool updated);
  void update_copy(replica& self, const rule_step& rule);
  void update_shared(replica& self, std::int64_t examples);
  rule_step rule_of(std::uint64_t step, std::int64_t examples,
                    float rate) const;
  /// Records whether the step of a replica has made its update.
  void record(replica& self, bool updated);
  /// Gives the update to the processes that follow.
  void publish(replica& self, std::int64_t examples, float rate, bool updated);

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  const std::optional<schedule> schedule_;
  const on_nan on_nan_;
  const metric_list metrics_;
  const std::vector<float> class_weights_;
  /// Null: no audits, or the replicas of the job share one copy.
  std::shared_ptr<parameter_audit> audit_;
  /// The variables that the fit changes, without tables.
  std::vector<variable> trained_;
  /// By index in `trained_`: number of the parameter.
  std::vector<std::size_t> trained_index_;
  std::vector<std::size_t> frozen_index_; ///< Numbers of the other parameters.
  /// Ranges of `trained_` in the flat buffers.
  std::vector<element_range> trained_ranges_;
  std::shared_ptr<batch_feed> feed_;
  /// Null: each replica updates its copy of the parameters.
  std::unique_ptr<shared_update> shared_;
  // The next two members are unused with a shared update.
  std::vector<element_range> frozen_ranges_;
  /// By bucket: the ranges of trained parameters in it.
  std::vector<std::vector<element_range>> update_ranges_;
  std::deque<replica> replicas_; ///< Replicas of this process.
  /// Each replica gathers the metrics of all.
  bool gathers_metrics_ = false;
  /// With a shared update: metrics of each replica in the step.
  std::vector<step_metrics> shared_metrics_;
  /// Metrics of the last steps, by step number modulo the size.
  std::vector<std::pair<std::uint64_t, step_metrics>> totals_;
  mutable std::mutex totals_lock_;
};

} // namespace troupe
