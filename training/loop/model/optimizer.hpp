#pragma once

#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tensors/variable.hpp"

#include <memory>
#include <span>
#include <string>

namespace troupe {

struct model_state;

/// An update rule with its state, for a custom training loop.
/// `model::optimizer` is the optimizer of a model, which is saved with the
/// model. An optimizer that a program constructs has a state of its own, which
/// no file contains. It belongs to the strategy in whose scope it is
/// constructed.
class optimizer {
public:
  explicit optimizer(const update_rule& rule);
  /// For the library's own use. Makes the optimizer of a model: its rule, slots
  /// and number of steps are those of `model`, which must exist as long.
  explicit optimizer(model_state& model);
  ~optimizer();
  // No move: `model::optimizer` returns a reference, and a model needs its
  // optimizer.
  optimizer(const optimizer&) = delete;
  optimizer& operator=(const optimizer&) = delete;

  /// Updates every variable by its gradient. Call it in a replica's function.
  /// All replicas must pass equal gradients, as `all_reduce` returns them. In a
  /// job of one process, the replicas share one copy of the variables. There
  /// the call waits for all replicas, as a collective does. A replica reads the
  /// old values before its call, and the new values after it.
  /// @param gradients gradients of `variables`, in their order and with their
  ///        shapes; float32.
  /// @errors throws std::logic_error for wrong shapes, a wrong number of
  ///         gradients, a variable that is listed twice, or the variable of
  ///         another model. Throws it outside a replica's function, and in the
  ///         run of another strategy. In a job of one process, throws it on all
  ///         replicas, and changes nothing, if replicas pass other gradients or
  ///         variables. The error names the variable and the replicas. If a
  ///         replica does not call `apply`, the step ends with `ec::stalled`.
  /// @cost in a job of one process with several replicas, two barriers. If the
  ///       gradients are not the tensors that `all_reduce(sum, ...)` returned,
  ///       also a comparison of their bytes and a third barrier.
  void apply(std::span<const tensor> gradients,
             std::span<const variable> variables);

  /// Updates every variable by its gradient, as the function above. A sparse
  /// gradient moves its rows only: the others and their slots keep their bits,
  /// also with momentum and weight decay. PyTorch's SparseAdam does the same;
  /// Keras's Adam moves the slots of all rows.
  /// @cost for a sparse gradient, the cost of its rows. In a job of one process
  ///       with several replicas, sparse gradients are always compared.
  void apply(std::span<const parameter_gradient> gradients,
             std::span<const variable> variables);

  /// The rule with the current learning rate.
  const update_rule& rule() const;
  float learning_rate() const;

  /// Sets the learning rate of all later steps. The learning rate of a model's
  /// optimizer is saved with the model, and `fit` uses it if it has no
  /// schedule.
  /// @pre no step runs.
  /// @errors throws std::invalid_argument if x is negative or not finite.
  void set_learning_rate(float x);

  /// Number of updates so far. For the optimizer of a model, updates by `fit`
  /// count too.
  /// @pre no step runs.
  std::uint64_t steps() const;

  /// For the library's own use. Returns the number of updates by `apply` since
  /// the last call.
  /// @pre no step runs.
  std::uint64_t take_updates();

  /// For the library's own use. Adds the state for copies that a model's
  /// variables have got, and notes the number of replicas of this process.
  /// @pre no step runs, and the replicas do not share one copy.
  void grow(std::size_t copies, std::size_t replicas);

  // For the library's own use, for a model's optimizer: as the functions of
  // `placement_observer`, without the values and slots that the model has.
  void keep_state();
  void restore_state();
  std::string state_text() const;
  void on_copied(const std::string& text);

private:
  struct impl;
  /// The strategy of an optimizer that a program constructs observes it.
  std::shared_ptr<impl> impl_;
};

} // namespace troupe
