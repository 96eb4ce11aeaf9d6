#pragma once

#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/training/parameter_server/server_variable.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

class parameter_server_strategy;

/// Options of one update of a `server_optimizer`.
struct update_options {
  /// Replaces the learning rate of the rule, so that a schedule can set it.
  std::optional<float> learning_rate{};
  /// Factor by which the gradient is multiplied first. If the gradient is a sum
  /// over examples, the caller passes 1 divided by their number.
  float scale = 1;
};

/// An update rule whose state is on the parameter servers, beside the
/// variables. Each part of a variable counts its own steps: they are the number
/// of gradients that were applied to it.
class server_optimizer {
public:
  /// @errors throws `job_error` if a server does not answer, and
  ///         std::logic_error in a closure.
  server_optimizer(const parameter_server_strategy& strategy,
                   const update_rule& rule);

  /// For the library's own use. The optimizer of a model, or the one that
  /// another process has made for the model. It is no part of the order in
  /// which a program makes optimizers.
  /// @param values variable of the model, on servers of the strategy.
  server_optimizer(const parameter_server_strategy& strategy,
                   const update_rule& rule, const server_variable& values);

  /// Updates every variable by its gradient, on the servers. In a closure, the
  /// updates take place when the closure has ended. A sparse gradient moves its
  /// rows only.
  /// @param gradients of `variables`, in their order and with their shapes.
  /// @errors throws std::invalid_argument, and changes nothing, for another
  ///         number of gradients, another shape, a variable that is not
  ///         float32, and a learning rate that is negative or a number that is
  ///         not finite; `job_error` if a server does not answer.
  /// @cost a copy of each dense gradient.
  void apply(std::span<const parameter_gradient> gradients,
             std::span<const server_variable> variables,
             const update_options& options = {}) const;
  void apply(std::span<const tensor> gradients,
             std::span<const server_variable> variables,
             const update_options& options = {}) const;

  /// Contributes the gradient of one replica to a synchronous step of a
  /// variable, which keeps it. In a closure this takes place when the closure
  /// has ended. Has no effect if the step was applied before.
  /// @param gradient sum over the examples of this replica; sparse for a table,
  ///        and dense for another variable.
  /// @param step     number of the step; `apply_contributions` applies steps in
  ///                 ascending order. At most 64 may wait.
  /// @errors as `apply`
  /// @cost a copy of the gradient.
  void contribute(const parameter_gradient& gradient,
                  const server_variable& variable, std::uint64_t step,
                  std::uint32_t replica) const;

  /// Updates a variable by the sum of the gradients that some replicas have
  /// contributed to a synchronous step, and drops the other contributions to
  /// this step and earlier ones. The gradients are added in the order of the
  /// canonical tree (strategies/tree/reduction.hpp), as an all-reduce adds
  /// them. Repeating it has no effect.
  /// @param contributors ascending. Empty: the step is counted, and changes no
  ///                     element.
  /// @errors throws std::invalid_argument as `apply`; `job_error` if a server
  ///         does not answer or lacks a contribution.
  void apply_contributions(const server_variable& variable, std::uint64_t step,
                           const std::vector<std::uint32_t>& contributors,
                           const update_options& options = {}) const;

  /// State of the optimizer for one variable, as a checkpoint holds it.
  struct state {
    std::uint64_t steps = 0;
    std::vector<tensor> slots; ///< With the shape of the variable.
  };

  /// Returns the state for a variable. If its parts have made different numbers
  /// of steps, the number of the first part counts.
  /// @errors throws std::logic_error in a closure; `job_error` if a server does
  ///         not answer.
  state state_of(const server_variable& variable) const;

  /// Sets the state for a variable, for example one that an optimizer on
  /// another number of servers had. Forgets all contributions.
  /// @errors throws std::invalid_argument for another number of slots or
  ///         another shape; std::logic_error in a closure; `job_error` if a
  ///         server does not answer.
  void restore(const server_variable& variable, const state& from) const;

  const update_rule& rule() const { return rule_; }
  /// Number among the optimizers of the strategy.
  std::uint32_t number() const { return number_; }

private:
  /// Checks that the variable is on the servers of this optimizer.
  void check_owner(const server_variable& variable) const;

  update_rule rule_;
  std::string servers_;  ///< Name of the strategy.
  std::uint32_t number_; ///< Unique in the strategy only.
};

} // namespace troupe
