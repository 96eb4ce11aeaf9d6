#pragma once

#include "troupe/tensors/update_rules.hpp"
#include "troupe/tensors/variable.hpp"

#include <memory>
#include <span>

namespace troupe {

/// An update rule with its state, for a training loop of one's own. It belongs
/// to the strategy in whose scope it was made.
class optimizer {
public:
  explicit optimizer(const update_rule& rule);
  ~optimizer();
  optimizer(optimizer&&) noexcept;
  optimizer& operator=(optimizer&&) noexcept;

  /// One step of every variable, by its gradient: in a replica's function, with
  /// the same gradients on all replicas (`all_reduce`), once they all have read
  /// the variables. Where replicas take turns on one copy, the first call
  /// updates it.
  /// @param gradients one for each variable, in order, of its shape.
  /// @errors throws std::logic_error: other shapes or numbers, in cross-replica
  ///         context, or in the run of another strategy.
  void apply(std::span<const tensor> gradients,
             std::span<const variable> variables);

  float learning_rate() const;

  /// From the next step on. Not while a step runs.
  void set_learning_rate(float x);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
