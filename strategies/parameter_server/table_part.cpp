#include "troupe/strategies/parameter_server/table_part.hpp"

#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

namespace {

using kind = part_change::kind;

bool are_equal_bits(std::span<const float> a, std::span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Changes the elements of a row by an operand.
void combine(kind what, std::span<float> into, const float* operand) {
  const auto each = [&](auto fn) {
    std::transform(into.begin(), into.end(), operand, into.begin(), fn);
  };
  switch (what) {
    case kind::assign:
      return each([](float, float y) { return y; });
    case kind::add:
      return each([](float x, float y) { return x + y; });
    case kind::subtract:
      return each([](float x, float y) { return x - y; });
    case kind::minimum:
      return each([](float x, float y) { return y < x ? y : x; });
    case kind::maximum:
      return each([](float x, float y) { return x < y ? y : x; });
    case kind::gradient:
    case kind::contribute:
    case kind::apply_contributions:
    case kind::restore_slot:
    case kind::restore_steps:
    case kind::count_step:
      break;
  }
}

std::uint64_t bytes_of(const sparse_rows& x) {
  return x.indices().bytes() + x.rows().bytes();
}

} // namespace

table_part::table_part(const shape& table, row_range range,
                       const table_rules& rules)
  : table_{table},
    range_{range},
    elements_{table.rank() == 0 ? 0 : table.axes(1, table.rank()).elements()},
    rules_{rules},
    rows_{elements_, rules.max_idle_changes > 0 ? 1u : 0u},
    candidates_{0, 2} {
  if (elements_ == 0)
    throw std::invalid_argument("a table cannot be " + to_string(table)
                                + ": its rows have no element");
  if (elements_ > max_row_elements)
    throw std::invalid_argument(
      "a table cannot be " + to_string(table) + ": its rows have more than "
      + std::to_string(max_row_elements) + " elements");
  if (range.begin < 0 || range.end < range.begin || range.end > table.front()
      || range.size() > max_table_rows)
    throw std::invalid_argument(
      "a part of the table " + to_string(table) + " cannot have the rows ["
      + std::to_string(range.begin) + ", " + std::to_string(range.end)
      + "); it has at most " + std::to_string(max_table_rows));
  if (rules.max_idle_changes > max_idle_changes)
    throw std::invalid_argument(
      "max_idle_changes is " + std::to_string(rules.max_idle_changes)
      + "; give at most " + std::to_string(max_idle_changes));
}

tensor_spec table_part::spec() const {
  return {table_.with_extent(0, range_.size()), dtype::float32};
}

void table_part::check(const part_change& change) const {
  if (change.has_operand())
    check_operand(change);
  if (change.needs_rule())
    check_rule(change);
  if (change.what == kind::contribute
      || change.what == kind::apply_contributions)
    check_step(change, next_step_, contributions_);
}

void table_part::check_operand(const part_change& change) const {
  const bool is_sparse = static_cast<bool>(change.rows);
  if (is_sparse == static_cast<bool>(change.all))
    reject(change, "needs a value for all elements or for some rows");
  const tensor_spec operand =
    is_sparse ? tensor_spec{change.rows.dims(), change.rows.type()}
              : change.all.spec();
  if (operand != spec())
    reject(change, "the table is " + to_string(spec()) + ", the value "
                     + to_string(operand));
  if (change.all
      && (change.what == kind::gradient || change.what == kind::contribute))
    reject(change, "needs a gradient of some rows, as the variable is a table");
}

void table_part::check_rule(const part_change& change) const {
  const auto found = optimizers_.find(change.optimizer);
  parameter_server::check_rule(change, spec(),
                               found == optimizers_.end()
                                 ? std::optional<std::size_t>{}
                                 : found->second.initial.size());
}

void table_part::apply(const part_change& change) {
  // As in `stored_part`, a contribution was checked when its closure ended.
  if (change.what == kind::contribute) {
    check_operand(change);
    if (change.step >= next_step_)
      contributions_[change.step].insert_or_assign(
        change.replica, change.rows.gradient().sorted());
    return;
  }
  check(change);
  if (change.what == kind::apply_contributions && change.step < next_step_)
    return;
  const flush_denormals flushing;
  switch (change.what) {
    case kind::gradient:
      apply_gradient(change, change.rows.gradient().sorted());
      break;
    case kind::apply_contributions:
      apply_contributions(change);
      break;
    case kind::count_step:
      apply_gradient(change, {});
      break;
    case kind::restore_slot:
      restore_slot(change);
      break;
    case kind::restore_steps:
      state_of(change).steps = change.steps;
      contributions_.clear();
      next_step_ = 0;
      break;
    default:
      if (change.all)
        change_all(change);
      else
        change_rows(change);
  }
  ++version_;
  drop_idle_rows();
}

/// True if what was touched last in this change is idle. The change that is
/// being made has the next number.
bool table_part::is_idle(std::uint32_t last) const {
  return rules_.max_idle_changes > 0
         && static_cast<std::int32_t>(now() - last)
              >= static_cast<std::int32_t>(rules_.max_idle_changes);
}

bool table_part::is_idle(const entry& row) const {
  return rules_.max_idle_changes > 0 && is_idle(row.tag(0));
}

/// Returns a row. No row: it has its initial value.
row_map::entry table_part::find(std::uint32_t number) const {
  const auto found = rows_.find(number);
  return found && is_idle(found) ? entry{} : found;
}

/// Returns a row, which is kept from now on.
row_map::entry table_part::touch(std::uint32_t number) {
  auto found = rows_.find(number);
  if (!found || is_idle(found)) {
    candidates_.erase(number);
    if (!found)
      found = rows_.insert(number);
    const auto values = found.values();
    fill_initial(number, values.first(elements_));
    for (const auto& [optimizer, state] : optimizers_)
      for (std::size_t slot = 0; slot < state.initial.size(); ++slot)
        std::ranges::fill(
          values.subspan((1 + state.first + slot) * elements_, elements_),
          state.initial[slot]);
  }
  if (rules_.max_idle_changes > 0)
    found.tag(0) = now() + 1;
  return found;
}

/// Counts a gradient of a row. True: it takes place.
bool table_part::admits(std::uint32_t number) {
  if (rules_.min_touches <= 1 || find(number))
    return true;
  auto found = candidates_.find(number);
  if (!found) {
    found = candidates_.insert(number);
    found.tag(0) = 0;
  } else if (is_idle(found.tag(1))) {
    found.tag(0) = 0;
  }
  found.tag(1) = now() + 1;
  if (++found.tag(0) < rules_.min_touches)
    return false;
  return true;
}

/// Looks for idle rows in some buckets, so that each bucket has its turn in
/// `max_idle_changes` changes.
void table_part::drop_idle_rows() {
  if (rules_.max_idle_changes == 0)
    return;
  const auto drop = [&](row_map& from, std::size_t& next, std::size_t tag) {
    const auto count = from.buckets() / rules_.max_idle_changes + 1;
    for (std::size_t i = 0; i < std::min(count, from.buckets()); ++i) {
      next = (next + 1) % from.buckets();
      from.erase_if(next, [&](const entry& x) { return is_idle(x.tag(tag)); });
    }
  };
  drop(rows_, next_bucket_, 0);
  drop(candidates_, next_candidates_, 1);
}

void table_part::fill_initial(std::uint32_t number,
                              std::span<float> into) const {
  rules_.initial.fill_range(into, table_, rules_.key,
                            (static_cast<std::uint64_t>(range_.begin) + number)
                              * elements_);
}

/// Returns the state of the optimizer of a change. If it is new, all rows get
/// its slots.
table_part::optimizer_state& table_part::state_of(const part_change& change) {
  if (const auto found = optimizers_.find(change.optimizer);
      found != optimizers_.end())
    return found->second;
  optimizer_state state;
  state.first = rows_.floats() / elements_ - 1;
  for (std::size_t slot = 0; slot < change.rule->slots(); ++slot)
    state.initial.push_back(change.rule->initial_slot_value(slot));
  const auto add = [&]() -> optimizer_state& {
    return optimizers_.emplace(change.optimizer, std::move(state))
      .first->second;
  };
  if (state.initial.empty())
    return add();
  const auto tags = rules_.max_idle_changes > 0 ? 1u : 0u;
  row_map wider{rows_.floats() + state.initial.size() * elements_, tags};
  rows_.for_each([&](const entry& from) {
    const auto to = wider.insert(from.number());
    auto* const slots =
      std::ranges::copy(from.values(), to.values().data()).out;
    for (std::size_t slot = 0; slot < state.initial.size(); ++slot)
      std::fill_n(slots + slot * elements_, elements_, state.initial[slot]);
    if (tags > 0)
      to.tag(0) = from.tag(0);
  });
  auto& added = add(); // nothing has changed if an allocation fails
  rows_ = std::move(wider);
  return added;
}

void table_part::apply_gradient(const part_change& change,
                                const sparse_rows& sum) {
  const auto& rule = *change.rule;
  auto& state = state_of(change);
  const auto step = rule.step_at(
    ++state.steps, change.learning_rate.value_or(rule.learning_rate()),
    change.scale);
  if (!sum)
    return;
  const auto numbers = sum.indices().data<std::int64_t>();
  const auto* const gradient = sum.rows().data<float>().data();
  rows_.for_each_prefetched(numbers, [&](std::size_t i) {
    const auto number = static_cast<std::uint32_t>(numbers[i]);
    if (!admits(number))
      return;
    auto* const values = touch(number).values().data();
    std::array<float*, 2> slots{};
    for (std::size_t slot = 0; slot < state.initial.size(); ++slot)
      slots[slot] = values + (1 + state.first + slot) * elements_;
    step(values, gradient + i * elements_, slots, elements_);
  });
}

void table_part::apply_contributions(const part_change& change) {
  sparse_rows sum;
  if (!change.contributors.empty()) {
    const auto& given = contributions_[change.step];
    std::vector<sparse_rows> counted;
    for (const auto replica : change.contributors)
      counted.push_back(given.at(replica));
    sum = sum_over_replicas(counted);
  }
  apply_gradient(change, sum);
  next_step_ = change.step + 1;
  contributions_.erase(contributions_.begin(),
                       contributions_.lower_bound(next_step_));
}

void table_part::change_rows(const part_change& change) {
  const auto numbers = change.rows.indices().data<std::int64_t>();
  const auto* const operand = change.rows.rows().data<float>().data();
  rows_.for_each_prefetched(numbers, [&](std::size_t i) {
    const auto number = static_cast<std::uint32_t>(numbers[i]);
    combine(change.what, touch(number).values().first(elements_),
            operand + i * elements_);
  });
}

std::vector<std::uint32_t> table_part::kept_rows() const {
  std::vector<std::uint32_t> out;
  rows_.for_each([&](const entry& x) {
    if (find(x.number()))
      out.push_back(x.number());
  });
  return out;
}

/// Calls `fn(number)` for each row that is not kept and gets other bits than
/// its initial value by a change of all elements.
template <class F>
void table_part::for_made_rows(const part_change& change, const F& fn) const {
  const auto* operand = change.all.data<float>().data();
  std::vector<float> initial(elements_), changed(elements_);
  for (std::int64_t row = 0; row < range_.size(); ++row, operand += elements_) {
    const auto number = static_cast<std::uint32_t>(row);
    if (find(number))
      continue;
    if (change.what == kind::restore_slot)
      std::ranges::fill(initial, change.rule->initial_slot_value(change.slot));
    else
      fill_initial(number, initial);
    changed = initial;
    combine(change.what == kind::restore_slot ? kind::assign : change.what,
            changed, operand);
    if (!are_equal_bits(changed, initial))
      fn(number);
  }
}

void table_part::change_all(const part_change& change) {
  auto numbers = kept_rows();
  for_made_rows(change, [&](std::uint32_t x) { numbers.push_back(x); });
  const auto* const operand = change.all.data<float>().data();
  for (const auto number : numbers) {
    combine(change.what, touch(number).values().first(elements_),
            operand + number * elements_);
  }
}

void table_part::restore_slot(const part_change& change) {
  const auto first = state_of(change).first;
  auto numbers = kept_rows();
  for_made_rows(change, [&](std::uint32_t x) { numbers.push_back(x); });
  const auto* const from = change.all.data<float>().data();
  for (const auto number : numbers)
    std::copy_n(from + number * elements_, elements_,
                touch(number).values().data()
                  + (1 + first + change.slot) * elements_);
}

tensor table_part::value() const {
  tensor out{spec()};
  auto* to = out.mutable_data<float>().data();
  for (std::int64_t row = 0; row < range_.size(); ++row, to += elements_) {
    const auto number = static_cast<std::uint32_t>(row);
    if (const auto found = find(number))
      std::copy_n(found.values().data(), elements_, to);
    else
      fill_initial(number, {to, elements_});
  }
  return out;
}

std::uint32_t table_part::number_of(std::int64_t row) const {
  if (row < 0 || row >= range_.size())
    throw std::invalid_argument("row " + std::to_string(row) + " of "
                                + to_string(spec()));
  return static_cast<std::uint32_t>(row);
}

tensor table_part::rows(std::span<const std::int64_t> rows) const {
  tensor out{{table_.with_extent(0, static_cast<std::int64_t>(rows.size())),
              dtype::float32}};
  auto* const into = out.mutable_data<float>().data();
  rows_.for_each_prefetched(rows, [&](std::size_t i) {
    const auto number = number_of(rows[i]);
    auto* const to = into + i * elements_;
    if (const auto found = find(number))
      std::copy_n(found.values().data(), elements_, to);
    else
      fill_initial(number, {to, elements_});
  });
  return out;
}

tensor table_part::slot(std::uint32_t optimizer, const update_rule& rule,
                        std::uint32_t index) const {
  if (index >= rule.slots())
    throw std::invalid_argument(std::string{rule.name()} + " has no slot "
                                + std::to_string(index));
  auto out = tensor::full(spec().dims, rule.initial_slot_value(index));
  const auto found = optimizers_.find(optimizer);
  if (found == optimizers_.end())
    return out;
  const auto first = (1 + found->second.first + index) * elements_;
  auto* const to = out.mutable_data<float>().data();
  rows_.for_each([&](const entry& x) {
    if (find(x.number()))
      std::ranges::copy(x.values().subspan(first, elements_),
                        to + x.number() * elements_);
  });
  return out;
}

std::uint64_t table_part::steps(std::uint32_t optimizer) const {
  const auto found = optimizers_.find(optimizer);
  return found == optimizers_.end() ? 0 : found->second.steps;
}

table_part table_part::excerpt(std::span<const std::int64_t> rows) const {
  table_part out{table_, range_, rules_};
  out.version_ = version_;
  out.optimizers_ = optimizers_;
  out.contributions_ = contributions_;
  out.next_step_ = next_step_;
  const auto copy = [](const row_map& from, row_map& to, std::uint32_t number,
                       std::size_t tags) {
    const auto found = from.find(number);
    if (!found || to.find(number))
      return;
    const auto made = to.insert(number);
    std::ranges::copy(found.values(), made.values().begin());
    for (std::size_t i = 0; i < tags; ++i)
      made.tag(i) = found.tag(i);
  };
  const auto tags = rules_.max_idle_changes > 0 ? 1u : 0u;
  out.rows_ = row_map{rows_.floats(), tags};
  for (const auto row : rows) {
    const auto number = number_of(row);
    copy(rows_, out.rows_, number, tags);
    copy(candidates_, out.candidates_, number, 2);
  }
  return out;
}

std::uint64_t table_part::bytes() const {
  auto sum = rows_.bytes();
  if (rules_.min_touches > 1)
    sum += candidates_.bytes();
  for (const auto& [step, given] : contributions_)
    for (const auto& [replica, gradient] : given)
      sum += bytes_of(gradient);
  return sum;
}

std::uint64_t table_part::growth(const part_change& change) const {
  if (change.what == kind::contribute)
    return bytes_of(change.rows.gradient());
  const bool has_new_slots =
    change.needs_rule() && !optimizers_.contains(change.optimizer);
  const auto slot_bytes = has_new_slots
                            ? change.rule->slots() * elements_ * sizeof(float)
                            : std::size_t{0};
  std::uint64_t made = 0;
  if (change.all)
    for_made_rows(change, [&](std::uint32_t) { ++made; });
  else if (change.rows)
    for (const auto row :
         change.rows.gradient().sorted().indices().data<std::int64_t>())
      made += rows_.find(static_cast<std::uint32_t>(row)) ? 0 : 1;
  return made * (rows_.row_bytes() + slot_bytes) + rows_.size() * slot_bytes;
}

} // namespace troupe::parameter_server
