#include "troupe/actors/shard/shard_state.hpp"

#include "troupe/strategies/collective/reduce_kernels.hpp"
#include "troupe/strategies/parameter_server/part_image.hpp"
#include "troupe/strategies/parameter_server/table_image.hpp"
#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/tensors/sparse_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

using parameter_server::part_change;

/// Maximum size of an answer that lists rows, because a row can be listed
/// often.
constexpr auto max_answer_bytes = std::size_t{1} << 30;

[[noreturn]] void reject(const std::string& why) {
  throw std::invalid_argument(why);
}

template <class Image>
bool has_state_of(std::uint32_t optimizer, const Image& image) {
  return std::ranges::any_of(image.optimizers, [optimizer](const auto& x) {
    return x.optimizer == optimizer;
  });
}
/// True if an optimizer has steps or slots in a part.
bool has_state_of(std::uint32_t optimizer,
                  const parameter_server::stored_part& part) {
  std::vector<tensor> beside;
  return has_state_of(optimizer, part.save(beside));
}
bool has_state_of(std::uint32_t optimizer,
                  const parameter_server::table_part& part) {
  std::vector<tensor> beside;
  return has_state_of(optimizer, part.excerpt({}).save(beside));
}

const tensor& operand_at(const tensors& operands, std::size_t i) {
  if (i >= operands.size() || !operands[i])
    reject("a message has " + std::to_string(operands.size())
           + " operands, and lacks operand " + std::to_string(i));
  return operands[i];
}

/// Returns the bytes of a row, if an answer may have so many rows.
std::size_t checked_row_bytes(const tensor_spec& from, std::size_t rows) {
  const auto& dims = from.dims;
  const auto bytes = dims.axes(1, dims.rank()).elements() * size_of(from.type);
  if (rows > max_answer_bytes / std::max<std::size_t>(bytes, 1))
    reject(std::to_string(rows) + " rows of " + to_string(from)
           + " are more than 1 GiB");
  return bytes;
}

/// Returns the numbers of rows to read.
std::span<const std::int64_t> numbers_of(const tensor& rows) {
  if (rows.type() != dtype::int64 || rows.dims().rank() != 1)
    reject("numbers of rows are " + to_string(rows.spec()) + ", not int64[m]");
  return rows.data<std::int64_t>();
}

/// Returns some rows of a tensor.
tensor rows_of(const tensor& from, const tensor& rows) {
  if (from.dims().rank() == 0)
    reject("rows of a scalar");
  const auto numbers = numbers_of(rows);
  const auto& dims = from.dims();
  const auto row_bytes = checked_row_bytes(from.spec(), numbers.size());
  tensor out{{dims.with_extent(0, rows.dims().front()), from.type()}};
  auto* to = out.mutable_address();
  for (const auto row : numbers) {
    if (row < 0 || row >= from.dims().front())
      reject("row " + std::to_string(row) + " of " + to_string(from.spec()));
    std::memcpy(to, from.raw() + static_cast<std::size_t>(row) * row_bytes,
                row_bytes);
    to += row_bytes;
  }
  return out;
}

std::string text_of(const update_rule& x) {
  return std::string{x.name()} + exact_text(x.numbers());
}

parameter_server::table_rules rules_of(const new_table& x) {
  if (x.names.size() != x.numbers.size())
    reject("an initializer has " + std::to_string(x.names.size())
           + " names for " + std::to_string(x.numbers.size()) + " numbers");
  hyperparameters numbers;
  for (std::size_t i = 0; i < x.names.size(); ++i)
    numbers.push_back({x.names[i], x.numbers[i]});
  return {.initial = initializer{x.initializer, numbers},
          .key = {.seed = x.seed, .op = x.op},
          .min_touches = x.min_touches,
          .max_idle_changes = x.max_idle_changes};
}

/// Returns a copy of a table with some changes, in which these rows are right.
/// A change of a row has no influence on others.
parameter_server::table_part
changed_copy(const parameter_server::table_part& from,
             std::span<const std::int64_t> rows,
             const std::vector<addressed_change>& changes) {
  for (const auto& [part, change] : changes) {
    if (change.all) { // it may change all rows
      auto copy = from;
      for (const auto& one : changes)
        copy.apply(one.change);
      return copy;
    }
  }
  auto copy = from.excerpt(rows);
  for (const auto& one : changes)
    copy.apply(one.change);
  return copy;
}

/// Adds the gradients of replicas, all of some rows, in the order of the
/// canonical tree.
parameter_server::row_list
sum_of_rows(const std::vector<part_change>& by_replica) {
  std::vector<sparse_rows> all;
  for (const auto& one : by_replica)
    all.push_back(one.rows.gradient().sorted());
  return sum_over_replicas(all);
}

/// As `sum_of_rows`, if some gradients are of all elements.
tensor sum_of_elements(const std::vector<part_change>& by_replica) {
  std::vector<tensor> all;
  for (const auto& one : by_replica)
    all.push_back(one.rows ? one.rows.gradient().dense() : one.all);
  tensor sum{all[0].spec()};
  collective::sum_inputs(all, {dtype::float32, 0, sum.bytes()},
                         sum.mutable_address());
  return sum;
}

} // namespace

std::uint64_t bytes_of(const tensors& operands) {
  std::uint64_t bytes = 0;
  for (const auto& one : operands)
    bytes += one.bytes();
  return bytes;
}

parameter_server::payload payload_of(const tensors& operands) {
  return {std::make_shared<const tensors>(operands), bytes_of(operands)};
}

const tensors& tensors_of(const parameter_server::payload& from) {
  static const tensors none;
  return from.tensors ? *static_cast<const tensors*>(from.tensors.get()) : none;
}

std::string problem_of(const parameter_server::update_factors& x) {
  const auto rate = x.has_learning_rate ? x.learning_rate : 0;
  if (std::isfinite(rate) && rate >= 0 && std::isfinite(x.scale))
    return {};
  return "the learning rate " + std::to_string(rate) + " and the scale "
         + std::to_string(x.scale)
         + " must be finite, and the rate not negative";
}

parameter_server::table_part table_of(const new_part& x) {
  const shape dims{x.dims};
  if (dims.rank() == 0)
    reject("the table \"" + x.variable + "\" cannot be a scalar");
  const parameter_server::row_sharding sharding{dims.front(), x.parts};
  return {dims, sharding.range_of(x.index), rules_of(x.table)};
}

const parameter_server::stored_part&
shard_state::find(std::uint64_t part) const {
  const auto found = parts.find(part);
  if (found == parts.end())
    reject("there is no part " + std::to_string(part)
           + "; its variable was perhaps removed");
  return found->second;
}

const parameter_server::table_part*
shard_state::find_table(std::uint64_t part) const {
  const auto found = tables.find(part);
  return found == tables.end() ? nullptr : &found->second;
}

const update_rule& shard_state::find_rule(std::uint32_t optimizer) const {
  const auto found = optimizers.find(optimizer);
  if (found == optimizers.end())
    reject("there is no optimizer " + std::to_string(optimizer));
  return found->second;
}

std::uint64_t shard_state::add(const new_part& x, const tensor& initial) {
  if (parts.contains(x.part) || tables.contains(x.part))
    reject("there is a part " + std::to_string(x.part) + " already");
  if (x.is_table)
    return add_table(x);
  if (!initial)
    reject("part " + std::to_string(x.part) + " has no initial value");
  parts.try_emplace(x.part, parameter_server::stored_part{initial});
  descriptions.push_back(x);
  return updates;
}

std::uint64_t shard_state::add_table(const new_part& x) {
  tables.try_emplace(x.part, table_of(x));
  descriptions.push_back(x);
  return updates;
}

std::uint64_t shard_state::add(const new_optimizer& x) {
  if (x.names.size() != x.numbers.size())
    reject("an optimizer has " + std::to_string(x.names.size()) + " names for "
           + std::to_string(x.numbers.size()) + " numbers");
  hyperparameters numbers;
  for (std::size_t i = 0; i < x.names.size(); ++i)
    numbers.push_back({x.names[i], x.numbers[i]});
  const update_rule rule{x.rule, numbers};
  const auto& found = optimizers.try_emplace(x.optimizer, rule).first->second;
  if (found.name() != rule.name() || found.numbers() != rule.numbers())
    reject("optimizer " + std::to_string(x.optimizer) + " is \""
           + text_of(found) + "\", not \"" + text_of(rule)
           + "\"; all processes must give it the same rule");
  return updates;
}

/// @errors rejects the removal of a part or the optimizer of the training. It
///         also rejects the removal of an optimizer that has state in a part
///         which remains: a snapshot of the part could not be restored.
std::uint64_t shard_state::remove(const removal& x) {
  const auto is_removed = [&x](std::uint64_t part) {
    return std::ranges::find(x.parts, part) != x.parts.end();
  };
  for (const auto part : trained)
    if (is_removed(part))
      reject("part " + std::to_string(part) + " is trained");
  if (!trained.empty()
      && std::ranges::find(x.optimizers, training_optimizer)
           != x.optimizers.end())
    reject("optimizer " + std::to_string(training_optimizer) + " is used");
  for (const auto optimizer : x.optimizers)
    for (const auto& one : descriptions)
      if (!is_removed(one.part)
          && (one.is_table ? has_state_of(optimizer, tables.at(one.part))
                           : has_state_of(optimizer, parts.at(one.part))))
        reject("part " + std::to_string(one.part) + " uses optimizer "
               + std::to_string(optimizer) + "; remove both");
  for (const auto part : x.parts) {
    parts.erase(part);
    tables.erase(part);
  }
  for (const auto optimizer : x.optimizers)
    optimizers.erase(optimizer);
  std::erase_if(descriptions,
                [&](const new_part& one) { return is_removed(one.part); });
  effects.transform_waiting([&](const coordinator::payload& waiting) {
    auto left =
      *static_cast<const std::vector<addressed_change>*>(waiting.get());
    std::erase_if(left, [&](const addressed_change& one) {
      return is_removed(one.part)
             || (one.change.needs_rule()
                 && !optimizers.contains(one.change.optimizer));
    });
    return std::make_shared<const std::vector<addressed_change>>(
      std::move(left));
  });
  return updates;
}

std::vector<addressed_change> shard_state::decode(const change_list& x,
                                                  const tensors& operands,
                                                  std::size_t first,
                                                  bool checks) const {
  std::vector<addressed_change> out;
  for (const auto& one : x.changes) {
    const auto* const table = find_table(one.part);
    const auto* const part = table ? nullptr : &find(one.part);
    auto change = change_of(one);
    if (!change.has_operand()) {
      if (one.has_rows)
        reject(std::string{to_string(change.what)} + " has rows");
    } else if (one.has_rows) {
      const auto& rows = operand_at(operands, first++);
      change.rows = {table ? table->spec().dims : part->value().dims(), rows,
                     operand_at(operands, first++)};
    } else {
      change.all = operand_at(operands, first++);
    }
    if (change.needs_rule())
      change.rule = find_rule(change.optimizer);
    if (checks && table)
      table->check(change);
    else if (checks)
      part->check(change);
    out.push_back({one.part, std::move(change)});
  }
  if (first != operands.size())
    reject("a message has " + std::to_string(operands.size())
           + " operands, of which it uses " + std::to_string(first));
  return out;
}

std::uint64_t shard_state::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [number, part] : parts)
    sum += part.bytes();
  for (const auto& [number, table] : tables)
    sum += table.bytes();
  return sum;
}

std::uint64_t
shard_state::growth(const std::vector<addressed_change>& changes) const {
  std::uint64_t sum = 0;
  for (const auto& [part, change] : changes) {
    const auto* const table = find_table(part);
    sum += table ? table->growth(change) : find(part).growth(change);
  }
  return sum;
}

std::string shard_state::limit_problem(std::uint64_t growth,
                                       std::uint64_t limit_bytes) const {
  if (limit_bytes == 0 || growth == 0)
    return {};
  const auto now = bytes();
  if (growth <= limit_bytes && now <= limit_bytes - growth)
    return {};
  return "server " + std::to_string(index) + " holds " + std::to_string(now)
         + " bytes and would need " + std::to_string(growth)
         + " more, but its limit is " + std::to_string(limit_bytes)
         + "; raise max_server_bytes or use more servers";
}

std::uint64_t shard_state::version(std::uint64_t part) const {
  const auto* const table = find_table(part);
  return table ? table->version() : find(part).version();
}

tensor shard_state::pull(const part_pull& x, const tensors& operands) {
  if (x.has_reader && !effects.is_decided(x.reader.ordinal))
    staleness.on_read(x.reader, x.part, version(x.part));
  return value(x, operands);
}

tensor shard_state::value(const part_pull& x, const tensors& operands) const {
  if (const auto* const table = find_table(x.part))
    return pull_table(*table, x, operands);
  const auto changes = decode(x.after, operands, x.has_rows ? 1 : 0);
  const auto* part = &find(x.part);
  std::optional<parameter_server::stored_part> changed;
  if (!changes.empty()) {
    changed = *part;
    for (const auto& one : changes)
      if (one.part == x.part)
        changed->apply(one.change);
    part = &*changed;
  }
  return x.has_rows ? rows_of(part->value(), operand_at(operands, 0))
                    : part->value();
}

tensor shard_state::pull_table(const parameter_server::table_part& from,
                               const part_pull& x,
                               const tensors& operands) const {
  auto changes = decode(x.after, operands, x.has_rows ? 1 : 0);
  std::erase_if(
    changes, [&](const addressed_change& one) { return one.part != x.part; });
  if (!x.has_rows) {
    checked_row_bytes(from.spec(),
                      static_cast<std::size_t>(from.spec().dims.front()));
    auto copy = std::optional<parameter_server::table_part>{};
    for (const auto& one : changes)
      (copy ? *copy : copy.emplace(from)).apply(one.change);
    return (copy ? *copy : from).value();
  }
  const auto rows = numbers_of(operand_at(operands, 0));
  checked_row_bytes(from.spec(), rows.size());
  return changes.empty() ? from.rows(rows)
                         : changed_copy(from, rows, changes).rows(rows);
}

tensor shard_state::pull(const optimizer_pull& x) const {
  const auto& rule = find_rule(x.optimizer);
  const auto answer_from = [&](const auto& part) {
    return x.slot < rule.slots()
             ? part.slot(x.optimizer, rule, x.slot)
             : tensor::full({}, static_cast<double>(part.steps(x.optimizer)),
                            dtype::int64);
  };
  const auto* const table = find_table(x.part);
  if (!table)
    return answer_from(find(x.part));
  if (x.slot < rule.slots())
    checked_row_bytes(table->spec(),
                      static_cast<std::size_t>(table->spec().dims.front()));
  return answer_from(*table);
}

void shard_state::apply(const std::vector<addressed_change>& changes) {
  for (const auto& [part, change] : changes) {
    if (const auto found = tables.find(part); found != tables.end())
      found->second.apply(change);
    else
      parts.find(part)->second.apply(change);
  }
  updates += changes.size();
}

std::uint64_t shard_state::change(const change_list& x,
                                  const tensors& operands) {
  const auto changes = decode(x, operands);
  apply(changes);
  return updates;
}

std::uint64_t shard_state::store(const execution_effects& x,
                                 const tensors& operands) {
  auto changes = decode(x.changes, operands);
  effects.store(x.from, std::make_shared<const std::vector<addressed_change>>(
                          std::move(changes)));
  return updates;
}

coordinator::decided shard_state::decide(const coordinator::decision& x) {
  const auto verdict = effects.decide(x);
  if (!verdict.is_possible)
    reject("the decision on closure " + std::to_string(x.execution.ordinal)
           + " names an execution without effects");
  if (verdict.applied)
    try {
      const auto& changes = *static_cast<const std::vector<addressed_change>*>(
        verdict.applied->get());
      for (const auto& [part, change] : changes)
        if (change.what == parameter_server::part_change::kind::gradient)
          staleness.on_gradient(x.execution, part, version(part));
      apply(changes);
    } catch (const std::exception& e) {
      // The closure counts, and its changes were checked. The shard ends: it
      // lacks some of them, and the coordinator must not go on with it.
      throw std::runtime_error("the changes of closure "
                               + std::to_string(x.execution.ordinal)
                               + " could not be made: " + e.what());
    }
  staleness.forget_if(
    [&](std::uint64_t ordinal) { return effects.is_decided(ordinal); });
  return {index, x.execution.ordinal};
}

part_table shard_state::table() const {
  part_table out;
  for (const auto& one : descriptions) {
    out.parts.push_back(one);
    out.types.push_back(static_cast<std::uint8_t>(
      one.is_table ? dtype::float32 : find(one.part).value().type()));
  }
  return out;
}

// -- trainings ----------------------------------------------------------------

void shard_state::check(const new_training& x,
                        const parameter_server::training& of) const {
  find_rule(x.optimizer);
  for (const auto& one : of.parts) {
    const auto type =
      find_table(one.part) ? dtype::float32 : find(one.part).value().type();
    if (type != dtype::float32)
      reject("part " + std::to_string(one.part)
             + " cannot be trained, because its dtype is not float32");
  }
}

std::uint64_t shard_state::begin(const new_training& x,
                                 const parameter_server::training& of) {
  training_optimizer = x.optimizer;
  trained.clear();
  for (const auto& one : of.parts)
    trained.push_back(one.part);
  return updates;
}

part_change
shard_state::gradient_of(std::uint32_t index,
                         const parameter_server::update_factors& factors,
                         const tensors& operands) const {
  const auto number = trained.at(index);
  const auto* const table = find_table(number);
  const auto* const part = table ? nullptr : &find(number);
  part_change out{.what = part_change::kind::gradient,
                  .optimizer = training_optimizer,
                  .rule = find_rule(training_optimizer),
                  .scale = factors.scale};
  if (factors.has_learning_rate)
    out.learning_rate = factors.learning_rate;
  if (operands.size() > 2)
    reject("a gradient has " + std::to_string(operands.size()) + " operands");
  if (operands.size() == 2)
    out.rows = {table ? table->spec().dims : part->value().dims(),
                operand_at(operands, 0), operand_at(operands, 1)};
  else if (operands.size() == 1)
    out.all = operand_at(operands, 0);
  if (operands.empty())
    return out;
  if (table)
    table->check(out);
  else
    part->check(out);
  return out;
}

void shard_state::apply(const parameter_server::update& x) {
  const auto number = trained.at(x.part);
  if (!tables.contains(number) && !parts.contains(number))
    return;
  const bool is_skipped = x.is_decided && x.factors.is_skipped;
  std::vector<part_change> changes; // by replica
  for (const auto& one : x.contributions)
    if (const auto& operands = troupe::tensors_of(one.gradient);
        !operands.empty())
      changes.push_back(gradient_of(x.part, x.factors, operands));
  if (changes.empty() && !x.is_decided)
    return;
  auto sum = gradient_of(x.part, x.factors, {});
  if (changes.empty() || is_skipped)
    sum.what = part_change::kind::count_step;
  else if (changes.size() == 1)
    sum = std::move(changes[0]);
  else if (std::ranges::all_of(changes, [](const part_change& one) {
             return static_cast<bool>(one.rows);
           }))
    sum.rows = sum_of_rows(changes);
  else
    sum.all = sum_of_elements(changes);
  if (!x.is_decided) {
    const auto read = x.contributions[0].pushed.read_version;
    const auto staleness = x.version > read ? x.version - 1 - read : 0;
    pushed_staleness +=
      parameter_server::gradient_staleness{1, staleness, staleness};
  }
  apply({{number, std::move(sum)}});
}

tensor shard_state::value_of(std::uint32_t index, const tensor& rows) const {
  const bool has_rows = static_cast<bool>(rows);
  return value({trained.at(index), has_rows, {}},
               has_rows ? tensors{rows} : tensors{});
}

shard_status shard_state::status() const {
  shard_status out{.parts = parts.size() + tables.size(),
                   .bytes = bytes(),
                   .updates = updates,
                   .waiting = effects.waiting(),
                   .gradients =
                     staleness.gradients() + pushed_staleness.gradients,
                   .staleness_sum = staleness.sum() + pushed_staleness.sum,
                   .largest_staleness =
                     std::max(staleness.largest(), pushed_staleness.largest)};
  for (const auto& [number, table] : tables)
    out.rows += table.size();
  return out;
}

} // namespace troupe
