#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/training/loop/exchange/table_update.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/model/trained_parameters.hpp"
#include "troupe/training/loop/options/fit_options.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace troupe {

class parameter_audit;

/// The update rule of each step of a fit.
struct step_rules {
  const model_state& model;
  std::optional<troupe::schedule> schedule; ///< None: that of the model.

  float learning_rate(std::uint64_t step) const {
    return schedule ? schedule->at(step) : model.rule.learning_rate();
  }
  /// @param examples of the global batch; not 0.
  rule_step at(std::uint64_t step, std::int64_t examples, float rate) const {
    return model.rule.step_at(step + 1, rate, 1 / static_cast<float>(examples));
  }
};

/// Brings the parameters of a model from one version to the next by the
/// gradients of a step of `fit`. It is the only part of a step that depends on
/// where the parameters are; `train_step` computes the gradients and counts the
/// steps.
///
///   who      the replicas of this process, in turn or at once
///   start    a replica calls `begin`. It has its gradients in
///            `parameters::gradients(index)`, and calls `on_gradient` when that
///            of a parameter is complete
///   update   the replica calls `update`, which waits for the gradients of all
///            replicas of the job. When it returns, the parameters that this
///            replica writes have the next version
///   end      the replica calls `end`. Then all parameters that it reads have
///            the next version
///   skip     if a loss or a sum of gradients is not finite, all replicas keep
///            the version that they have
///   abort    a wait throws `superseded`. `update` has then changed nothing
///   order    the gradients are added in the order of the canonical tree,
///            unless the job has the algorithm `ring`
///   cost     allocates no memory from the system after the first steps
///
/// For replicas that share one copy of the parameters, there are
/// `shared_exchange` on the CPU and `device_exchange` on a device. For replicas
/// that each have a copy, there is `bucket_exchange`.
class gradient_exchange {
public:
  /// Losses of the examples of a replica, [n] float32, and outputs of the
  /// network.
  struct step_results {
    tensor losses, outputs;
  };

  /// A step of a replica.
  struct replica_step {
    step_context* context = nullptr;
    std::uint32_t index = 0;    ///< Index of the replica in this process.
    std::int64_t examples = 0;  ///< Examples of the global batch.
    bool is_loss_finite = true; ///< Set when the loss is known.
    /// What the replica has computed. Empty: it has no examples.
    step_results computed{};
    /// Sets the metrics of the replica from its results on the CPU.
    std::function<void(const step_results&, step_metrics&)> report{};
  };

  /// What all replicas agree on.
  struct outcome {
    bool is_finite = true;    ///< False: the update is skipped.
    bool copies_agree = true; ///< False: the update is skipped, by an audit.
    /// Metrics of the step, by replica of the job. Valid until `end`.
    std::span<const step_metrics> metrics;
    /// What a metric has thrown when the update was made already. The step
    /// counts, and its metrics are incomplete. Null: nothing.
    std::exception_ptr error{};
  };

  /// Makes the exchange for the copies of the parameters that the replicas of
  /// this process have.
  /// @param sums  number of sums of the metrics.
  /// @param audit of the copies. Null: none. It is not used for one copy.
  static std::unique_ptr<gradient_exchange>
  make(model_state& model, const step_rules& rules,
       const trained_parameters& trained, std::size_t sums,
       std::shared_ptr<parameter_audit> audit);
  virtual ~gradient_exchange() = default;
  gradient_exchange(const gradient_exchange&) = delete;
  gradient_exchange& operator=(const gradient_exchange&) = delete;

  /// True: `on_gradient` contributes, so a replica has to know before its
  /// backward pass whether its loss is finite.
  virtual bool contributes_in_backward_pass() const = 0;

  /// True: `update` calls the function `report` of the steps, because the
  /// results are on a device, and sets the report of the context.
  virtual bool reports_in_update() const { return false; }

  /// True: until `update`, a step gives all its work to one device, and needs
  /// no result of it. So the work can be a graph (step_graph.hpp).
  virtual bool supports_graphs() const { return false; }

  /// The update of tables, whose rows a replica sets in its backward pass.
  /// Null: there are none.
  virtual table_update* tables() { return nullptr; }

  // A replica calls the following functions in their order: `begin` and
  // `on_gradient` for each dense parameter, or `begin_without_examples`.

  virtual void begin(const replica_step& step) = 0;
  /// @param parameter its number.
  virtual void on_gradient(const replica_step& step, std::size_t parameter) = 0;
  /// All gradients of the replica are zero.
  virtual void begin_without_examples(const replica_step& step) = 0;

  /// @pre `step.context->report` has the metrics of the replica, or
  ///      `reports_in_update`.
  virtual outcome update(const replica_step& step) = 0;

  /// @param steps_done steps that the replica has made.
  /// @param is_stopped the replica makes no further update.
  virtual void end(const replica_step& step, std::uint64_t steps_done,
                   bool is_stopped) = 0;

  /// Makes the copies of this process equal to that of a replica. No effect if
  /// there is one. @pre no step runs.
  virtual void replace_copies(std::uint32_t /*source*/) {}

protected:
  gradient_exchange() = default;
};

} // namespace troupe
