#pragma once

#include "troupe/actors/protocol/shard_actor.hpp"
#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/staleness_meter.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/strategies/parameter_server/table_part.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace troupe {

/// State of a shard.
struct shard_state {
  static inline const char* name = "shard";

  explicit shard_state(shard_actor::pointer) {}

  std::uint64_t add(const new_part& x, const tensor& initial);
  std::uint64_t add_table(const new_part& x);
  std::uint64_t add(const new_optimizer& x);
  std::uint64_t limit(const shard_limits& x);
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
  /// Checks that so many more bytes do not exceed `max_bytes`.
  void check_memory(std::uint64_t growth) const;
  std::uint64_t bytes() const; ///< Of all parts.
  void apply(const std::vector<addressed_change>& changes);

  std::uint32_t index = 0; ///< Of the shard in the job.
  std::unordered_map<std::uint64_t, parameter_server::stored_part> parts;
  std::unordered_map<std::uint64_t, parameter_server::table_part> tables;
  std::vector<new_part> descriptions; ///< Of the parts, as they were made.
  std::unordered_map<std::uint32_t, update_rule> optimizers; ///< By number.
  coordinator::closure_effects effects;
  coordinator::staleness_meter staleness;
  std::uint64_t updates = 0;   ///< Changes that took place.
  std::uint64_t max_bytes = 0; ///< Of all parts. Zero: no limit.
  /// For tests of faults: called before a read or change is answered. Empty: no
  /// effect.
  std::function<void()> before_answer{};
};

/// Returns the part of a table that a message describes, without changes.
/// @errors throws std::logic_error that says what is impossible.
parameter_server::table_part table_of(const new_part& x);

/// Holds parts of variables. It answers reads, makes changes, and keeps the
/// effects of closures until the decision on them.
/// @param index of the shard in the job.
/// @param before_answer as in `shard_state`.
shard_actor::behavior_type
shard(shard_actor::stateful_pointer<shard_state> self, std::uint32_t index,
      std::function<void()> before_answer);

} // namespace troupe
