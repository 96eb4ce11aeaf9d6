#pragma once

#include "troupe/actors/protocol/shard_actor.hpp"
#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace troupe {

/// State of a shard.
struct shard_state {
  static inline const char* name = "shard";

  explicit shard_state(shard_actor::pointer) {}

  std::uint64_t add(const new_part& x, const tensor& initial);
  std::uint64_t add(const new_optimizer& x);
  tensor pull(const part_pull& x, const tensors& operands) const;
  tensor pull(const optimizer_pull& x) const;
  std::uint64_t change(const change_list& x, const tensors& operands);
  std::uint64_t store(const execution_effects& x, const tensors& operands);
  coordinator::decided decide(const coordinator::decision& x);
  part_table table() const;
  shard_status status() const;

  const parameter_server::stored_part& find(std::uint64_t part) const;
  const update_rule& find_rule(std::uint32_t optimizer) const;
  /// Returns the changes of a message, which all fit.
  /// @param first the first operand.
  /// @param checks false: the changes fitted before, and need not fit now.
  std::vector<addressed_change> decode(const change_list& x,
                                       const tensors& operands,
                                       std::size_t first = 0,
                                       bool checks = true) const;
  void apply(const std::vector<addressed_change>& changes);

  std::uint32_t index = 0; ///< Of the shard in the job.
  std::unordered_map<std::uint64_t, parameter_server::stored_part> parts;
  std::vector<new_part> descriptions; ///< Of the parts, as they were made.
  std::unordered_map<std::uint32_t, update_rule> optimizers; ///< By number.
  coordinator::closure_effects effects;
  std::uint64_t updates = 0; ///< Changes that took place.
};

/// Holds parts of variables. It answers reads, makes changes, and keeps the
/// effects of closures until the decision on them.
/// @param index of the shard in the job.
shard_actor::behavior_type
shard(shard_actor::stateful_pointer<shard_state> self, std::uint32_t index);

} // namespace troupe
