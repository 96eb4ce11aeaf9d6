#pragma once

#include "troupe/tensors/update_rules.hpp"
#include "troupe/tensors/variable.hpp"

#include <memory>
#include <span>

namespace troupe {

/// An update rule with its state, for a custom training loop. It belongs to the
/// strategy in whose scope it was constructed.
class optimizer {
public:
  explicit optimizer(const update_rule& rule);
  ~optimizer();
  optimizer(optimizer&&) noexcept;
  optimizer& operator=(optimizer&&) noexcept;

  /// Updates every variable by its gradient. Call it in a replica's function,
  /// with equal gradients on all replicas (`all_reduce`), after all replicas
  /// have read the variables. If replicas take turns on one copy, the first
  /// call updates it.
  /// @param gradients one for each variable, in order, of its shape.
  /// @errors throws std::logic_error for wrong shapes or a wrong number of
  ///         gradients, in cross-replica context, and in the run of another
  ///         strategy.
  void apply(std::span<const tensor> gradients,
             std::span<const variable> variables);

  float learning_rate() const;

  /// Sets the rate from the next step on.
  /// @pre no step runs.
  void set_learning_rate(float x);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
