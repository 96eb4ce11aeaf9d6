#pragma once

#include "troupe/strategies/coordinator/messages.hpp"
#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

// Requests to a shard, which holds parts of variables, and its answers.

namespace troupe {

/// How the rows of a table begin, and which of them are kept
/// (`parameter_server::table_rules`).
struct new_table {
  std::string initializer;
  std::vector<std::string> names{}; ///< Of its hyperparameters.
  std::vector<double> numbers{};    ///< Their values.
  std::uint64_t seed = 0;           ///< Of the key of the initial values.
  std::uint32_t op = 0;             ///< Of this key.
  std::uint32_t min_touches = 1;
  std::uint32_t max_idle_changes = 0;
  auto fields() {
    return std::tie(initializer, names, numbers, seed, op, min_touches,
                    max_idle_changes);
  }
};

/// A part of a variable. Its initial value is a tensor beside the message that
/// makes it. A table has none; the tensor has no elements.
struct new_part {
  std::uint64_t part = 0;         ///< Number of the part in the job.
  std::string variable;           ///< Name.
  std::vector<std::int64_t> dims; ///< Of the whole variable.
  std::uint32_t index = 0;        ///< Of the part in the variable.
  std::uint32_t parts = 1;        ///< Of the variable.
  bool is_table = false;
  new_table table{}; ///< Of a table.
  auto fields() {
    return std::tie(part, variable, dims, index, parts, is_table, table);
  }
};

/// The parts of a shard.
struct part_table {
  std::vector<new_part> parts;
  std::vector<std::uint8_t> types; ///< Their dtypes.
  auto fields() { return std::tie(parts, types); }
};

/// An optimizer to make at a shard: an update rule by name and numbers.
struct new_optimizer {
  std::uint32_t optimizer = 0; ///< Number of the optimizer in the job.
  std::string rule;
  std::vector<std::string> names{}; ///< Of its hyperparameters.
  std::vector<double> numbers{};    ///< Their values.
  auto fields() { return std::tie(optimizer, rule, names, numbers); }
};

/// Computes elements of a part from themselves and the operand
/// (`part_change::changes_elements_by_operand`).
struct element_assignment {
  parameter_server::part_change::kind kind{};
  auto fields() { return std::tie(kind); }
};

/// One step of an optimizer by a gradient.
struct optimizer_step {
  std::uint32_t optimizer = 0; ///< Number of the optimizer in the job.
  parameter_server::update_factors factors{};
  auto fields() { return std::tie(optimizer, factors); }
};

/// Keeps the gradient of one replica for a synchronous step.
struct step_contribution {
  std::uint64_t step = 0; ///< Number of the synchronous step.
  std::uint32_t replica = 0;
  auto fields() { return std::tie(step, replica); }
};

/// One step of an optimizer by the gradients that replicas have contributed.
struct contributed_step {
  optimizer_step by{};
  std::uint64_t step = 0;                    ///< As in `step_contribution`.
  std::vector<std::uint32_t> contributors{}; ///< Replicas, ascending.
  auto fields() { return std::tie(by, step, contributors); }
};

/// Sets a slot of an optimizer, as in a checkpoint.
struct checkpoint_slot {
  std::uint32_t optimizer = 0; ///< Number of the optimizer in the job.
  std::uint32_t slot = 0;      ///< Index.
  auto fields() { return std::tie(optimizer, slot); }
};

/// Sets the number of steps of an optimizer, as in a checkpoint.
struct checkpoint_steps {
  std::uint32_t optimizer = 0; ///< Number of the optimizer in the job.
  std::uint64_t steps = 0;
  auto fields() { return std::tie(optimizer, steps); }
};

using change_content =
  std::variant<element_assignment, optimizer_step, step_contribution,
               contributed_step, checkpoint_slot, checkpoint_steps>;

/// One change of a part. Its operands are the next tensors beside the message:
/// one for all elements, or the rows, [m] int64, and one for them. A change
/// without operands (`part_change::has_operand`) has none.
struct change_header {
  std::uint64_t part = 0; ///< Number of the part in the job.
  bool has_rows = false;
  change_content content{};
  auto fields() { return std::tie(part, has_rows, content); }
};

/// Changes that take place together, in their order.
struct change_list {
  std::vector<change_header> changes;
  auto fields() { return std::tie(changes); }
};

/// The optimizer of a training, which begins.
struct new_training {
  std::uint32_t optimizer = 0; ///< Number of the optimizer in the job.
  auto fields() { return std::tie(optimizer); }
};

/// Asks for the value of a part. The tensors beside it are the rows, [m] int64,
/// if it asks for some, and then the operands of `after`.
struct part_pull {
  std::uint64_t part = 0;
  bool has_rows = false;
  /// Changes of this part, which do not take place. The answer contains them.
  change_list after;
  bool has_reader = false; ///< An execution of a closure reads.
  coordinator::execution reader{};
  auto fields() { return std::tie(part, has_rows, after, has_reader, reader); }
};

/// Asks for the state of an optimizer for a part: one of its slots, or if it
/// has no slot with this number, the number of its steps, a scalar int64.
struct optimizer_pull {
  std::uint64_t part = 0;
  std::uint32_t optimizer = 0;
  std::uint32_t slot = 0;
  auto fields() { return std::tie(part, optimizer, slot); }
};

/// What one execution of a closure changes at a shard.
struct execution_effects {
  coordinator::execution from;
  std::uint64_t done_below = 0; ///< As in `coordinator::run`.
  change_list changes;
  auto fields() { return std::tie(from, done_below, changes); }
};

/// Removes parts and optimizers, with what waits for them. Those that do not
/// exist have been removed before.
struct removal {
  std::vector<std::uint64_t> parts;      ///< Numbers of parts in the job.
  std::vector<std::uint32_t> optimizers; ///< Numbers of optimizers in the job.
  auto fields() { return std::tie(parts, optimizers); }
};

/// What a shard holds.
struct shard_status {
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;   ///< Values and slots.
  std::uint64_t rows = 0;    ///< Rows of tables that are kept.
  std::uint64_t updates = 0; ///< Changes that took place.
  std::uint64_t waiting = 0; ///< Executions whose effects wait.
  // As in `coordinator::staleness_meter`.
  std::uint64_t gradients = 0;
  std::uint64_t staleness_sum = 0;
  std::uint64_t largest_staleness = 0;
  auto fields() {
    return std::tie(parts, bytes, rows, updates, waiting, gradients,
                    staleness_sum, largest_staleness);
  }
};

/// A contribution of a replica of this process to a training. Its gradient
/// travels beside it, as beside `shard_push`.
struct replica_push {
  std::uint32_t shard = 0;
  std::uint64_t training = 0; ///< Number.
  parameter_server::push_id id;
  std::uint64_t read_version = 0; ///< As in `parameter_server::push`.
  parameter_server::update_factors factors{};
  coordinator::execution by{}; ///< The execution that pushes.
  auto fields() {
    return std::tie(shard, training, id, read_version, factors, by);
  }
};

/// Asks for parts of a shard for a step of a replica of this process. The
/// numbers of rows travel beside it, as beside `shard_pull`.
struct replica_pull {
  std::uint32_t shard = 0;
  std::uint64_t training = 0; ///< Number.
  std::uint32_t replica = 0;
  std::uint64_t step = 0; ///< As in `parameter_server::pull`.
  std::vector<std::uint32_t> parts;
  std::vector<std::uint8_t> has_rows; ///< By part: 0 or 1.
  coordinator::execution by{};        ///< The execution that pulls.
  auto fields() {
    return std::tie(shard, training, replica, step, parts, has_rows, by);
  }
};

/// A change of a part.
struct addressed_change {
  std::uint64_t part = 0;
  parameter_server::part_change change;
};

/// A list of changes with their operands.
struct encoded_changes {
  change_list list;
  tensors operands;
};
/// @cost shares the elements of the operands.
encoded_changes encode(const std::vector<addressed_change>& changes);

/// Returns a change without its operands and its rule.
/// @errors throws std::invalid_argument if the kind of an assignment is that of
///         another change.
parameter_server::part_change change_of(const change_header& x);

} // namespace troupe
