#include "troupe/actors/shard/shard_image.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

using effects_of_closure = std::vector<addressed_change>;

[[noreturn]] void refuse_snapshot(const std::string& what) {
  throw std::invalid_argument("the snapshot of a shard: " + what);
}

new_optimizer description_of(std::uint32_t number, const update_rule& rule) {
  new_optimizer out{number, std::string{rule.name()}};
  for (const auto& [name, value] : rule.numbers()) {
    out.names.push_back(name);
    out.numbers.push_back(value);
  }
  return out;
}

/// Makes the parts that were saved, and removes their tensors from `beside`.
/// @pre `into` has the optimizers.
void restore_parts(shard_state& into, const shard_image& from,
                   std::span<const tensor>& beside) {
  const auto all = from.parts.size();
  const auto tables = static_cast<std::size_t>(
    std::ranges::count(from.parts, true, &new_part::is_table));
  if (from.images.size() != all - tables || from.tables.size() != tables)
    refuse_snapshot(std::to_string(from.images.size()) + " images of "
                    + std::to_string(all - tables) + " parts, and "
                    + std::to_string(from.tables.size()) + " of "
                    + std::to_string(tables) + " tables");
  auto image = from.images.begin();
  auto table_image = from.tables.begin();
  for (const auto& one : from.parts) {
    const auto name = "part " + std::to_string(one.part);
    if (into.parts.contains(one.part) || into.tables.contains(one.part))
      refuse_snapshot(name + " occurs twice");
    if (!one.is_table) {
      into.parts.try_emplace(
        one.part, parameter_server::stored_part::restore(*image++, beside));
      continue;
    }
    for (const auto& at : table_image->optimizers)
      if (at.initial.size() != into.find_rule(at.optimizer).slots())
        refuse_snapshot(name + " has " + std::to_string(at.initial.size())
                        + " slots of optimizer "
                        + std::to_string(at.optimizer));
    into.tables.try_emplace(one.part, parameter_server::table_part::restore(
                                        table_of(one), *table_image++, beside));
  }
  into.descriptions = from.parts;
}

} // namespace

shard_image save_shard(const shard_state& from, tensors& beside) {
  shard_image out{.updates = from.updates,
                  .parts = from.descriptions,
                  .optimizer = from.training_optimizer};
  std::vector<tensor> values;
  for (const auto& one : out.parts)
    if (const auto* const table = from.find_table(one.part))
      out.tables.push_back(table->save(values));
    else
      out.images.push_back(from.find(one.part).save(values));
  beside.insert(beside.end(), values.begin(), values.end());
  const std::map<std::uint32_t, update_rule> rules{from.optimizers.begin(),
                                                   from.optimizers.end()};
  for (const auto& [number, rule] : rules)
    out.optimizers.push_back(description_of(number, rule));
  out.effects = from.effects.save();
  for (const auto& one : from.effects.waiting_effects()) {
    auto encoded = encode(*static_cast<const effects_of_closure*>(one.get()));
    out.waiting.push_back(std::move(encoded.list));
    out.operands.push_back(static_cast<std::uint32_t>(encoded.operands.size()));
    for (auto& operand : encoded.operands)
      beside.push_back(std::move(operand));
  }
  return out;
}

shard_state restore_shard(std::uint32_t index, const shard_image& from,
                          std::span<const tensor> beside) {
  shard_state out;
  out.index = index;
  for (const auto& one : from.optimizers)
    out.add(one);
  restore_parts(out, from, beside);
  out.updates = from.updates;
  if (from.waiting.size() != from.operands.size())
    refuse_snapshot(std::to_string(from.operands.size())
                    + " numbers of operands of "
                    + std::to_string(from.waiting.size()) + " closures");
  std::vector<coordinator::payload> effects;
  for (std::size_t i = 0; i < from.waiting.size(); ++i) {
    const auto count = from.operands[i];
    if (count > beside.size())
      refuse_snapshot("operands of a closure are missing");
    const tensors operands{beside.begin(), beside.begin() + count};
    beside = beside.subspan(count);
    // They fitted when they were stored.
    effects.push_back(std::make_shared<const effects_of_closure>(
      out.decode(from.waiting[i], operands, 0, false)));
  }
  if (!beside.empty())
    refuse_snapshot(std::to_string(beside.size()) + " tensors are left");
  if (!out.effects.restore(from.effects, effects))
    refuse_snapshot("the effects of closures are impossible");
  return out;
}

} // namespace troupe
