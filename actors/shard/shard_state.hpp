#pragma once

#include "troupe/actors/protocol/shard_messages.hpp"
#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/staleness_meter.hpp"
#include "troupe/strategies/parameter_server/gradient_staleness.hpp"
#include "troupe/strategies/parameter_server/part_contributions.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/strategies/parameter_server/table_part.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe {

/// Parts of variables, the optimizers that update them, and the effects of
/// closures that wait for the decision on them.
/// @errors functions with a request throw std::logic_error if what it names
///         does not exist or does not fit, and then nothing has changed.
struct shard_state {
  std::uint64_t add(const new_part& x, const tensor& initial);
  std::uint64_t add_table(const new_part& x);
  std::uint64_t add(const new_optimizer& x);
  std::uint64_t remove(const removal& x);
  tensor pull(const part_pull& x, const tensors& operands);
  tensor value(const part_pull& x, const tensors& operands) const;
  tensor pull(const optimizer_pull& x) const;
  tensor pull_table(const parameter_server::table_part& from,
                    const part_pull& x, const tensors& operands) const;
  std::uint64_t change(const change_list& x, const tensors& operands);
  std::uint64_t store(const execution_effects& x, const tensors& operands);
  coordinator::decided decide(const coordinator::decision& x);
  part_table table() const;
  shard_status status() const;

  /// Checks a training that is to begin.
  void check(const new_training& x, const parameter_server::training& of) const;
  /// A training begins in place of the one before.
  std::uint64_t begin(const new_training& x,
                      const parameter_server::training& of);
  /// Returns the change that a gradient makes in a part of the training.
  /// @param index of the part in the training.
  /// @param operands as beside `shard_push`. None: the change has no operand.
  /// @errors throws std::logic_error if the gradient does not fit.
  parameter_server::part_change
  gradient_of(std::uint32_t index,
              const parameter_server::update_factors& factors,
              const tensors& operands) const;
  /// Bytes that a change of a part of the training would add.
  std::uint64_t growth_of(std::uint32_t index,
                          const parameter_server::part_change& change) const {
    return growth({{trained.at(index), change}});
  }
  /// Applies an update of the training. No effect if the part was removed.
  /// @errors throws std::logic_error if a gradient does not fit, and then
  ///         nothing has changed.
  void apply(const parameter_server::update& x);
  /// Returns the value of a part of the training.
  /// @param rows [m] int64. Empty: all rows.
  tensor value_of(std::uint32_t index, const tensor& rows) const;

  const parameter_server::stored_part& find(std::uint64_t part) const;
  /// Null: the part is not a table, or there is none.
  const parameter_server::table_part* find_table(std::uint64_t part) const;
  /// Number of changes of a part so far.
  std::uint64_t version(std::uint64_t part) const;
  const update_rule& find_rule(std::uint32_t optimizer) const;
  /// Returns the changes of a message, which all fit.
  /// @param first the first operand.
  /// @param checks false: the changes fitted before, and need not fit now.
  std::vector<addressed_change> decode(const change_list& x,
                                       const tensors& operands,
                                       std::size_t first = 0,
                                       bool checks = true) const;
  /// Bytes that changes would add.
  std::uint64_t growth(const std::vector<addressed_change>& changes) const;
  /// Says that so many more bytes would exceed a limit. Empty: they would not.
  /// @param limit_bytes zero: no limit.
  std::string limit_problem(std::uint64_t growth,
                            std::uint64_t limit_bytes) const;
  std::uint64_t bytes() const; ///< Of all parts.
  void apply(const std::vector<addressed_change>& changes);

  std::uint32_t index = 0; ///< Of the shard in the job.
  std::unordered_map<std::uint64_t, parameter_server::stored_part> parts;
  std::unordered_map<std::uint64_t, parameter_server::table_part> tables;
  std::vector<new_part> descriptions; ///< Of the parts, as they were made.
  std::unordered_map<std::uint32_t, update_rule> optimizers; ///< By number.
  coordinator::closure_effects effects;
  coordinator::staleness_meter staleness; ///< Of gradients of closures.
  parameter_server::gradient_staleness pushed_staleness;
  std::uint32_t training_optimizer = 0;
  std::vector<std::uint64_t> trained; ///< Numbers of the parts of the training.
  std::uint64_t updates = 0;          ///< Changes that took place.
};

/// The gradient of a push in the log of a shard.
/// @param operands as beside `shard_push`.
parameter_server::payload payload_of(const tensors& operands);
/// @pre the payload was made by the function above, or is empty: then there are
///      no tensors.
const tensors& tensors_of(const parameter_server::payload& from);

std::uint64_t bytes_of(const tensors& operands);

/// Says why no update can be applied with these factors. Empty: it can.
std::string problem_of(const parameter_server::update_factors& x);

/// Returns the part of a table that a message describes, without changes.
/// @errors throws std::logic_error that says what is impossible.
parameter_server::table_part table_of(const new_part& x);

} // namespace troupe
