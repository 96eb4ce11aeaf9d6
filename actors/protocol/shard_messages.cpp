#include "troupe/actors/protocol/shard_messages.hpp"

namespace troupe {

encoded_changes encode(const std::vector<addressed_change>& changes) {
  encoded_changes out;
  for (const auto& [part, change] : changes) {
    const bool has_rows = static_cast<bool>(change.rows);
    out.list.changes.push_back(
      {.part = part,
       .what = change.what,
       .has_rows = has_rows,
       .optimizer = change.optimizer,
       .has_learning_rate = change.learning_rate.has_value(),
       .learning_rate = change.learning_rate.value_or(0),
       .scale = change.scale,
       .step = change.step,
       .replica = change.replica,
       .contributors = change.contributors,
       .slot = change.slot,
       .steps = change.steps});
    if (!change.has_operand())
      continue;
    if (has_rows)
      out.operands.push_back(change.rows.indices());
    out.operands.push_back(has_rows ? change.rows.rows() : change.all);
  }
  return out;
}

} // namespace troupe
