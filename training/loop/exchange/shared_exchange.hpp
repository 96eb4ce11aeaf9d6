#pragma once

#include "troupe/training/loop/exchange/gradient_exchange.hpp"
#include "troupe/training/loop/exchange/shared_update.hpp"

namespace troupe {

/// The exchange of a job of one process, whose replicas share one copy of the
/// parameters. When all have completed their backward passes, one pass reduces
/// the gradients and updates the parameters (shared_update.hpp).
class shared_exchange final : public gradient_exchange {
public:
  shared_exchange(model_state& model, const step_rules& rules,
                  const trained_parameters& trained, std::size_t sums);

  bool contributes_in_backward_pass() const override { return false; }
  table_update* tables() override { return update_.tables(); }
  void begin(const replica_step& step) override;
  void on_gradient(const replica_step& step, std::size_t parameter) override;
  void begin_without_examples(const replica_step& step) override;
  outcome update(const replica_step& step) override;
  void end(const replica_step& step, std::uint64_t steps_done,
           bool is_stopped) override;

private:
  /// State of one replica.
  struct replica {
    tensor gradient; ///< [parameters::size()] float32
    /// True if the gradients that are complete have finite sums.
    bool has_finite_sums = true;
  };

  const model_state& model_;
  const step_rules& rules_;
  const std::vector<element_range> trained_ranges_;
  shared_update update_;
  std::vector<replica> replicas_;
  std::vector<step_metrics> metrics_; ///< Metrics of the step, by replica.
};

} // namespace troupe
