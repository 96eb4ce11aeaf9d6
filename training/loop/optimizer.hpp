#pragma once

#include "troupe/tensors/update_rules.hpp"
#include "troupe/tensors/variable.hpp"

#include <memory>
#include <span>

namespace troupe {

/// An update rule with its state, for a custom training loop. An optimizer
/// belongs to the strategy in whose scope it is constructed.
class optimizer {
public:
  explicit optimizer(const update_rule& rule);
  ~optimizer();
  optimizer(optimizer&&) noexcept;
  optimizer& operator=(optimizer&&) noexcept;

  /// Updates every variable by its gradient. Call it in a replica's function,
  /// after all replicas have read the variables. All replicas must pass equal
  /// gradients, as `all_reduce` returns them. If the replicas share one copy of
  /// the variables, the first call updates that copy.
  /// @param gradients gradients of `variables`, in their order and with their
  ///        shapes.
  /// @errors throws std::logic_error for wrong shapes, for a wrong number of
  ///         gradients, outside a replica's function, and in the run of another
  ///         strategy.
  void apply(std::span<const tensor> gradients,
             std::span<const variable> variables);

  float learning_rate() const;

  /// Sets the learning rate of all later steps.
  /// @pre no step runs.
  void set_learning_rate(float x);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
