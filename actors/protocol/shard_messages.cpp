#include "troupe/actors/protocol/shard_messages.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

namespace {

using parameter_server::part_change;
using change_kind = part_change::kind;

optimizer_step step_of(const part_change& x) {
  return {x.optimizer,
          {x.learning_rate.has_value(), x.learning_rate.value_or(0), x.scale}};
}

change_content content_of(const part_change& x) {
  switch (x.what) {
    case change_kind::gradient:
      return step_of(x);
    case change_kind::contribute:
      return step_contribution{x.step, x.replica};
    case change_kind::apply_contributions:
      return contributed_step{step_of(x), x.step, x.contributors};
    case change_kind::restore_slot:
      return checkpoint_slot{x.optimizer, x.slot};
    case change_kind::restore_steps:
      return checkpoint_steps{x.optimizer, x.steps};
    default:
      return element_assignment{x.what};
  }
}

part_change to_change(const element_assignment& x) {
  part_change out{.what = x.kind};
  if (!out.changes_elements_by_operand())
    throw std::invalid_argument(std::string{to_string(x.kind)}
                                + " is no assignment");
  return out;
}

part_change to_change(const optimizer_step& x) {
  part_change out{.what = change_kind::gradient,
                  .optimizer = x.optimizer,
                  .scale = x.factors.scale};
  if (x.factors.has_learning_rate)
    out.learning_rate = x.factors.learning_rate;
  return out;
}

part_change to_change(const step_contribution& x) {
  return {
    .what = change_kind::contribute, .step = x.step, .replica = x.replica};
}

part_change to_change(const contributed_step& x) {
  auto out = to_change(x.by);
  out.what = change_kind::apply_contributions;
  out.step = x.step;
  out.contributors = x.contributors;
  return out;
}

part_change to_change(const checkpoint_slot& x) {
  return {.what = change_kind::restore_slot,
          .optimizer = x.optimizer,
          .slot = x.slot};
}

part_change to_change(const checkpoint_steps& x) {
  return {.what = change_kind::restore_steps,
          .optimizer = x.optimizer,
          .steps = x.steps};
}

} // namespace

encoded_changes encode(const std::vector<addressed_change>& changes) {
  encoded_changes out;
  for (const auto& [part, change] : changes) {
    const bool has_rows = static_cast<bool>(change.rows);
    out.list.changes.push_back({part, has_rows, content_of(change)});
    if (!change.has_operand())
      continue;
    if (has_rows)
      out.operands.push_back(change.rows.indices());
    out.operands.push_back(has_rows ? change.rows.rows() : change.all);
  }
  return out;
}

part_change change_of(const change_header& x) {
  return std::visit([](const auto& one) { return to_change(one); }, x.content);
}

} // namespace troupe
