#pragma once

#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/exchange/gradient_exchange.hpp"
#include "troupe/training/loop/exchange/host_copies.hpp"
#include "troupe/training/loop/exchange/step_graph.hpp"
#include "troupe/training/loop/feed/batch_feed.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/options/metric_list.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// Runs the steps of `fit` on the replicas of this process. A step is the
/// forward pass, the backward pass, and the exchange of the gradients, which
/// updates the parameters (gradient_exchange.hpp). `fit` constructs one object.
/// It preallocates its buffers, so a step allocates no memory from the system.
/// The object shares ownership of the model and the batches, because a replica
/// that is stuck in a step outlives the call of `fit`.
class train_step {
public:
  /// @param audit compares the copies of the state in some of the steps. Null:
  ///        no audits.
  /// @errors throws std::invalid_argument for an invalid list of metrics, and
  ///         as the constructor of `trained_parameters`.
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

  float learning_rate(std::uint64_t step) const {
    return rules_.learning_rate(step);
  }

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
  /// each update as a whole. Of several copies, one may lack an update that
  /// another has made. The replicas of other processes may have made more or
  /// fewer steps.
  /// @returns the number of the model's steps that this replica has completed.
  /// @pre no step runs.
  std::uint64_t resync_replicas();

  /// Returns the metrics of a step, summed over all replicas of the job. Each
  /// process knows the metrics of the last `2 * max_steps_ahead() + 2` steps
  /// that it has completed.
  /// @pre no step runs, and the step is one of these.
  step_metrics total_of(std::uint64_t step) const;

private:
  /// State of one replica.
  struct replica {
    explicit replica(const device& on) : copies{on} {}

    gradient_exchange::replica_step step;
    tensor labels;                   ///< Labels of the step, on the CPU.
    host_copies copies;              ///< Copies of the results.
    std::optional<step_graph> graph; ///< None: the steps have no graph.
    /// Called when a gradient is complete.
    tape::completed on_gradient_complete;
    bool stopped = false;
    /// Number of the model's steps that this replica has completed. Steps with
    /// a skipped update count too.
    std::uint64_t steps_done = 0;
  };

  /// @param rows as the dataset yields them.
  /// @param on_device the same rows.
  void forward_and_backward(replica& self, const batch& rows,
                            const batch& on_device);
  /// Computes the losses, the outputs and the gradients of a replica.
  /// @param class_weights by example. Empty: 1.
  gradient_exchange::step_results compute(replica& self, const batch& on_device,
                                          const tensor& class_weights);
  /// Sets the report of the step of a replica. Waits for its results.
  void report_now(replica& self);
  /// Sets the metrics of a replica from its results on the CPU.
  void report(const replica& self, const gradient_exchange::step_results& found,
              step_metrics& into) const;
  /// Keeps the total of a step, as the chief computes it.
  /// @param metrics of all replicas.
  void keep_total(std::uint64_t step, std::span<const step_metrics> metrics,
                  bool updated);
  /// Records whether the step of a replica has made its update.
  void record(replica& self, bool updated);

  const std::shared_ptr<model_state> shared_model_;
  model_state& model_;
  const step_rules rules_;
  const on_nan on_nan_;
  const metric_list metrics_;
  const std::vector<float> class_weights_;
  const trained_parameters trained_;
  std::vector<variable> dense_variables_; ///< By index in `trained_.dense()`.
  std::shared_ptr<batch_feed> feed_;
  std::unique_ptr<gradient_exchange> exchange_;
  std::atomic<int> graph_failures_ = 0; ///< Failures of all replicas.
  std::deque<replica> replicas_;        ///< Replicas of this process.
  /// Metrics of the last steps, by step number modulo the size.
  std::vector<std::pair<std::uint64_t, step_metrics>> totals_;
  mutable std::mutex totals_lock_;
};

} // namespace troupe
