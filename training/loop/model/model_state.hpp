#pragma once

#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/support/data_identity.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

namespace troupe {

/// Sums over the committed steps of the current epoch.
struct epoch_totals {
  std::uint64_t examples = 0;
  std::vector<double> sums; ///< As `step_metrics::sums`. Empty: no step.
  double seconds = 0;

  void add(const step_metrics& metrics) {
    examples += metrics.examples;
    sums.resize(metrics.sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += metrics.sums[i];
  }

  /// Mean of the losses of all examples. NaN: there was no example.
  double mean_loss() const {
    return examples == 0 || sums.empty()
             ? epoch_record::none
             : sums[metric_list::loss_sum] / static_cast<double>(examples);
  }

  /// Values of the metrics of `list`. NaN: there was no example.
  std::vector<metric_value> values(const metric_list& list) const {
    auto all = sums;
    all.resize(list.sum_count());
    auto out = list.values(all);
    if (examples == 0)
      for (auto& one : out)
        one.value = epoch_record::none;
    return out;
  }
};

/// The state of a fit between two steps, or at its end. A fit can be resumed
/// from this state together with the weights and the optimizer's slots.
struct fit_position {
  data::position next_batch; ///< Position of the next batch.
  /// Epoch of the dataset that epoch 1 of the fit reads.
  std::uint64_t first_epoch = 0;
  epoch_totals totals;
  std::vector<epoch_record> epochs;
  /// Names and numbers of sums of the fit's metrics, as
  /// `metric_list::description` writes them. A fit can be resumed only with the
  /// same metrics.
  std::string metrics;

  /// Best value of the monitored metric, negated if a larger one is better.
  /// NaN: none.
  double best_metric = epoch_record::none;
  std::uint64_t best_epoch = 0;
  std::uint64_t epochs_without_improvement = 0; ///< Epochs since `best_epoch`.
  /// [parameters::size()] float32. Empty: not kept.
  tensor best_weights;

  // A fit can be resumed only if these members are unchanged.
  std::uint64_t batches = 0; ///< Batches in an epoch.
  std::uint32_t replicas = 1;
  std::vector<std::uint32_t> replica_shares; ///< Empty: equal shares.
  /// Identity of the training data. None: it is not known.
  std::optional<data_identity> data;

  /// True: the fit has completed all its epochs, and the weights are those of
  /// its last step. It can go on if it gets more epochs.
  bool is_complete = false;

  std::uint64_t epochs_done() const { return next_batch.epoch - first_epoch; }

  /// Returns this position as that of a complete fit, without the times of its
  /// epochs, so that equal fits give equal files.
  fit_position completed() const;
};

/// The state of a `model`.
struct model_state final : placement_observer {
  model_state(const models::model_description& architecture,
              const update_rule& update, const models::loss& loss,
              std::uint64_t seed, std::shared_ptr<strategy_state> owner,
              models::precision precision = models::precision::float32);
  model_state(const model_state&) = delete;
  model_state& operator=(const model_state&) = delete;

  std::shared_ptr<strategy_state> strategy;
  models::network net;
  update_rule rule;
  const models::loss* loss;
  std::uint64_t seed;
  parameters model_parameters;
  /// State of the update rule: `slots[copy][slot]` is a float32 tensor of shape
  /// [parameters::size()].
  std::vector<std::vector<tensor>> slots;
  /// Updates so far, without those that `loop_optimizer` counts.
  std::uint64_t steps = 0;
  /// The optimizer that `model::optimizer` returns. It refers to this state.
  optimizer loop_optimizer;
  /// Epoch of the dataset with which the next fit begins by default.
  std::uint64_t next_epoch = 0;
  /// Position from which the next fit with `resume` goes on. None: the last fit
  /// can be neither resumed nor continued.
  std::optional<fit_position> interrupted;
  /// Steps of a fit may change the model at any time.
  std::atomic<bool> has_fit_steps{false};
  /// The last fit has thrown after an audit had found that copies differ.
  bool is_suspect = false;
  std::string note;

  std::span<const variable> variables() const {
    return model_parameters.variables();
  }

  /// @errors throws std::logic_error in a process that joins a running job, as
  ///         long as it does not have the state of the job. Throws `job_error`
  ///         if the job goes on without this process (`throw_if_excluded`).
  void check_readable() const;

  /// Checks that no step of a fit changes the model meanwhile.
  /// @param operation what reads the model, in the error text.
  /// @errors throws std::logic_error in `callback::on_step` of a fit of this
  ///         model, and while another thread runs steps of such a fit.
  void check_no_fit_step(const std::string& operation) const;

  /// Copies the values and slots of the copy `source` to all other copies that
  /// the replicas of this process use.
  void broadcast_copy(std::uint32_t source);

  /// True if a copy was made from another one of this process since the last
  /// call of `forget_replacements`.
  bool was_replaced(std::uint32_t copy) const {
    return copy < was_replaced_.size() && was_replaced_[copy];
  }
  void forget_replacements() { was_replaced_.clear(); }

  /// Makes copies for the replicas that this process has now. They are equal to
  /// the first copy. @pre the copies that were used before are equal.
  void on_new_placement() override;
  void keep_state() override;
  void restore_state() override;
  /// The state of `loop_optimizer`, and what the calls of `fit` have left.
  std::string state_text() override;
  /// The values and slots of the first copy, and the best weights of an
  /// interrupted fit if the text says so. Empty text: without them.
  std::vector<tensor> state_tensors(const std::string& text) override;
  void on_copied(const std::string& text) override;
  /// Describes the network, its precision, the loss, the seed and the update
  /// rule without its learning rate, which a program may change.
  std::string description() const override;

private:
  std::vector<tensor> first_copy() const;
  std::uint32_t count_used_copies() const;
  /// Makes the values and slots of a copy equal to those of another one.
  void replace_copy(std::uint32_t copy, std::uint32_t source);
  void note_replacement(std::uint32_t copy);

  /// Number of the first copies that the replicas of this process use. Those
  /// behind them have the values of an earlier view.
  std::uint32_t used_copies_ = 1;
  std::vector<bool> was_replaced_; ///< By copy. Those behind it were not.

  std::vector<tensor> kept_; ///< The last kept values and slots. Empty: none.
  /// Gets the best weights of another process's interrupted fit.
  tensor best_weights_;
};

/// Describes what a model computes, one "name: value" a line: the network, its
/// precision and the loss.
std::string describe_computation(const model_state& state);

/// Throws std::invalid_argument if the data does not fit the model.
/// @param description name of the data in the error text, such as "the training
///        data".
void check_data(const model_state& state, const data::dataset& batches,
                std::string_view description);

} // namespace troupe
