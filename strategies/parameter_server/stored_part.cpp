#include "troupe/strategies/parameter_server/stored_part.hpp"

#include "troupe/strategies/collective/reduce_kernels.hpp"
#include "troupe/strategies/parameter_server/change_checks.hpp"
#include "troupe/strategies/parameter_server/wrapping_sum.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

namespace {

using kind = part_change::kind;

/// Calls `fn(T{})`, where T is the element type of a part.
template <class F>
void with_element(dtype type, F fn) {
  switch (type) {
    case dtype::float64:
      return fn(double{});
    case dtype::int32:
      return fn(std::int32_t{});
    case dtype::int64:
      return fn(std::int64_t{});
    default:
      return fn(float{});
  }
}

/// True if the elements belong to this handle alone, which can write them.
bool is_owned(const tensor& x) {
  return x.unique() && !x.is_read_only();
}

/// Gives a tensor elements of its own.
void make_unique(tensor& x) {
  if (!is_owned(x))
    x = x.clone();
}

/// Writes what a change makes of some elements. @param into may be `from`.
template <class T>
void combine(kind what, std::span<const T> from, std::span<const T> operand,
             std::span<T> into) {
  // In two loops, each of which the compiler can vectorize.
  const auto each = [x = from.data(), y = operand.data(), z = into.data(),
                     n = from.size()](auto fn) {
    if (x == z)
      for (std::size_t i = 0; i < n; ++i)
        z[i] = fn(z[i], y[i]);
    else
      for (std::size_t i = 0; i < n; ++i)
        z[i] = fn(x[i], y[i]);
  };
  switch (what) {
    case kind::assign:
      return each([](T, T y) { return y; });
    case kind::add:
      return each([](T x, T y) { return wrapping_add(x, y); });
    case kind::subtract:
      return each([](T x, T y) { return wrapping_subtract(x, y); });
    case kind::minimum:
      return each([](T x, T y) { return y < x ? y : x; });
    case kind::maximum:
      return each([](T x, T y) { return x < y ? y : x; });
    case kind::gradient:
    case kind::contribute:
    case kind::apply_contributions:
    case kind::restore_slot:
    case kind::restore_steps:
    case kind::count_step:
      break;
  }
}

/// Calls `fn(first element of a row of the part, row of the operand)`.
template <class Rows, class F>
void for_rows(const Rows& rows, F fn) {
  const tensor& indices = rows.indices();
  const auto numbers = indices.data<std::int64_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    fn(static_cast<std::size_t>(numbers[i]) * rows.row_size(), i);
}

} // namespace

std::string_view to_string(part_change::kind x) {
  switch (x) {
    case kind::assign:
      return "assign";
    case kind::add:
      return "assign_add";
    case kind::subtract:
      return "assign_sub";
    case kind::minimum:
      return "assign_min";
    case kind::maximum:
      return "assign_max";
    case kind::gradient:
      return "apply";
    case kind::contribute:
      return "contribute";
    case kind::apply_contributions:
      return "apply_contributions";
    case kind::restore_slot:
    case kind::restore_steps:
      return "restore";
    case kind::count_step:
      return "count_step";
  }
  return "?";
}

void check_dtype(const tensor_spec& variable) {
  switch (variable.type) {
    case dtype::float32:
    case dtype::float64:
    case dtype::int32:
    case dtype::int64:
      return;
    default:
      throw std::invalid_argument("a variable on a parameter server cannot be "
                                  + to_string(variable)
                                  + "; use float32, float64, int32 or int64");
  }
}

stored_part::stored_part(tensor initial) : value_{std::move(initial)} {
  check_dtype(value_.spec());
}

void stored_part::check(const part_change& change) const {
  if (change.has_operand())
    check_operand(change);
  if (change.needs_rule())
    check_rule(change);
  if (change.what == kind::contribute
      || change.what == kind::apply_contributions)
    check_step(change);
}

void stored_part::check_operand(const part_change& change) const {
  const bool is_sparse = static_cast<bool>(change.rows);
  if (is_sparse == static_cast<bool>(change.all))
    reject(change, "needs a value for all elements or for some rows");
  const tensor_spec operand =
    is_sparse ? tensor_spec{change.rows.dims(), change.rows.type()}
              : change.all.spec();
  if (operand != value_.spec())
    reject(change, "the variable is " + to_string(value_.spec())
                     + ", the value " + to_string(operand));
}

void stored_part::check_rule(const part_change& change) const {
  const auto found = optimizers_.find(change.optimizer);
  parameter_server::check_rule(change, value_.spec(),
                               found == optimizers_.end()
                                 ? std::optional<std::size_t>{}
                                 : found->second.slots.size());
}

void stored_part::check_step(const part_change& change) const {
  if (change.what == kind::contribute && change.step >= next_step_
      && (value_.type() != dtype::float32 || change.rows))
    reject(change, "needs a gradient of all elements of float32 values");
  parameter_server::check_step(change, next_step_, contributions_);
}

void stored_part::apply(const part_change& change) {
  // A contribution was checked when its closure ended. It must not be lost if
  // others were stored meanwhile.
  if (change.what == kind::contribute) {
    check_operand(change);
    return contribute(change);
  }
  check(change);
  if (change.what == kind::restore_slot || change.what == kind::restore_steps)
    return restore(change);
  const flush_denormals flushing;
  if (change.what == kind::apply_contributions)
    return apply_contributions(change);
  ++version_;
  if (change.what == kind::count_step) {
    apply_gradient(change, nullptr, {});
  } else if (change.what == kind::gradient) {
    make_unique(value_);
    apply_gradient(
      change, change.all ? change.all.data<float>().data() : nullptr,
      change.rows ? change.rows.gradient().sorted() : sparse_rows{});
  } else if (change.all) {
    change_all(change);
  } else {
    make_unique(value_);
    change_rows(change);
  }
}

/// Sets or combines all elements. Copies no value that others read.
void stored_part::change_all(const part_change& change) {
  with_element(value_.type(), [&](auto zero) {
    using element = decltype(zero);
    auto into = is_owned(value_) ? value_ : tensor{value_.spec()};
    combine(change.what, value_.data<element>(), change.all.data<element>(),
            into.mutable_data<element>());
    value_ = std::move(into);
  });
}

/// @pre `value_` is unique.
void stored_part::change_rows(const part_change& change) {
  with_element(value_.type(), [&](auto zero) {
    using element = decltype(zero);
    const auto values = value_.mutable_data<element>();
    const auto n = change.rows.row_size();
    const auto operand = change.rows.rows().data<element>();
    for_rows(change.rows, [&](std::size_t first, std::size_t i) {
      const auto row = values.subspan(first, n);
      combine<element>(change.what, row, operand.subspan(i * n, n), row);
    });
  });
}

tensor stored_part::slot(std::uint32_t optimizer, const update_rule& rule,
                         std::uint32_t index) const {
  if (index >= rule.slots())
    throw std::invalid_argument(std::string{rule.name()} + " has no slot "
                                + std::to_string(index));
  const auto found = optimizers_.find(optimizer);
  return found == optimizers_.end()
           ? tensor::full(value_.dims(), rule.initial_slot_value(index))
           : found->second.slots.at(index);
}

std::uint64_t stored_part::steps(std::uint32_t optimizer) const {
  const auto found = optimizers_.find(optimizer);
  return found == optimizers_.end() ? 0 : found->second.steps;
}

/// Returns the state of the optimizer of a change, which is made if it is new.
stored_part::optimizer_state& stored_part::state_of(const part_change& change) {
  auto& state = optimizers_[change.optimizer];
  for (auto slot = state.slots.size(); slot < change.rule->slots(); ++slot)
    state.slots.push_back(
      tensor::full(value_.dims(), change.rule->initial_slot_value(slot)));
  return state;
}

void stored_part::restore(const part_change& change) {
  ++version_;
  auto& state = state_of(change);
  if (change.what == kind::restore_slot) {
    state.slots[change.slot] = change.all;
    return;
  }
  state.steps = change.steps;
  contributions_.clear();
  next_step_ = 0;
}

void stored_part::contribute(const part_change& change) {
  if (change.step >= next_step_)
    contributions_[change.step].insert_or_assign(change.replica, change.all);
}

void stored_part::apply_contributions(const part_change& change) {
  if (change.step < next_step_)
    return;
  tensor sum;
  if (!change.contributors.empty()) {
    const auto& given = contributions_[change.step];
    std::vector<tensor> counted;
    for (const auto replica : change.contributors)
      counted.push_back(given.at(replica));
    if (counted.size() == 1) {
      sum = counted[0];
    } else {
      sum = tensor{value_.spec()};
      collective::sum_inputs(counted, {dtype::float32, 0, sum.bytes()},
                             sum.mutable_address());
    }
    make_unique(value_);
  }
  ++version_;
  apply_gradient(change, sum ? sum.data<float>().data() : nullptr, {});
  next_step_ = change.step + 1;
  contributions_.erase(contributions_.begin(),
                       contributions_.lower_bound(next_step_));
}

void stored_part::apply_gradient(const part_change& change, const float* all,
                                 const sparse_rows& rows) {
  const auto& rule = *change.rule;
  auto& state = state_of(change);
  const auto step = rule.step_at(
    ++state.steps, change.learning_rate.value_or(rule.learning_rate()),
    change.scale);
  if (!all && !rows)
    return;
  for (auto& slot : state.slots)
    make_unique(slot);
  auto* const values = value_.mutable_data<float>().data();
  const auto update = [&](std::size_t first, const float* gradient,
                          std::size_t n) {
    std::array<float*, 2> slots{};
    for (std::size_t i = 0; i < state.slots.size(); ++i)
      slots[i] = state.slots[i].mutable_data<float>().data() + first;
    step(values + first, gradient, slots, n);
  };
  if (all)
    return update(0, all, value_.size());
  const auto* const gradient = rows.rows().data<float>().data();
  for_rows(rows, [&](std::size_t first, std::size_t i) {
    update(first, gradient + i * rows.row_size(), rows.row_size());
  });
}

std::uint64_t stored_part::bytes() const {
  std::uint64_t sum = value_.bytes();
  for (const auto& [optimizer, state] : optimizers_)
    for (const auto& slot : state.slots)
      sum += slot.bytes();
  for (const auto& [step, given] : contributions_)
    for (const auto& [replica, gradient] : given)
      sum += gradient.bytes();
  return sum;
}

std::uint64_t stored_part::growth(const part_change& change) const {
  if (change.what == kind::contribute)
    return change.all.bytes();
  return change.needs_rule() && !optimizers_.contains(change.optimizer)
           ? change.rule->slots() * value_.bytes()
           : 0;
}

} // namespace troupe::parameter_server
