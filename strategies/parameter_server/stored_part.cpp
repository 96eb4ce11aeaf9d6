#include "troupe/strategies/parameter_server/stored_part.hpp"

#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

namespace {

using kind = part_change::kind;

[[noreturn]] void reject(const part_change& change, const std::string& why) {
  throw std::invalid_argument(std::string{to_string(change.what)} + ": " + why);
}

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

/// Gives a tensor elements of its own.
void make_unique(tensor& x) {
  if (!x.unique())
    x = x.clone();
}

template <class T>
void combine(kind what, std::span<T> into, std::span<const T> operand) {
  const auto each = [&](auto fn) {
    std::ranges::transform(into, operand, into.begin(), fn);
  };
  switch (what) {
    case kind::assign:
      return each([](T, T y) { return y; });
    case kind::add:
      return each([](T x, T y) { return static_cast<T>(x + y); });
    case kind::subtract:
      return each([](T x, T y) { return static_cast<T>(x - y); });
    case kind::minimum:
      return each([](T x, T y) { return y < x ? y : x; });
    case kind::maximum:
      return each([](T x, T y) { return x < y ? y : x; });
    case kind::gradient:
      break;
  }
}

/// Calls `fn(first element of a row of the part, row of the operand)`.
template <class F>
void for_rows(const sparse_rows& rows, F fn) {
  const auto numbers = rows.indices().data<std::int64_t>();
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
  const bool is_sparse = static_cast<bool>(change.rows);
  if (is_sparse == static_cast<bool>(change.all))
    reject(change, "needs a value for all elements or for some rows");
  const tensor_spec operand =
    is_sparse ? tensor_spec{change.rows.dims(), change.rows.type()}
              : change.all.spec();
  if (operand != value_.spec())
    reject(change, "the variable is " + to_string(value_.spec())
                     + ", the value " + to_string(operand));
  if (change.what != kind::gradient)
    return;
  if (value_.type() != dtype::float32)
    reject(change, "an optimizer cannot update " + to_string(value_.spec())
                     + "; it updates float32");
  if (!change.rule)
    reject(change, "needs an update rule");
  const auto rate = change.learning_rate.value_or(0);
  if (!std::isfinite(rate) || rate < 0 || !std::isfinite(change.scale))
    reject(change, "the learning rate " + std::to_string(rate)
                     + " and the scale " + std::to_string(change.scale)
                     + " must be finite, and the rate not negative");
  const auto found = optimizers_.find(change.optimizer);
  if (found != optimizers_.end()
      && found->second.slots.size() != change.rule->slots())
    reject(change, "the optimizer began with another rule than "
                     + std::string{change.rule->name()});
}

void stored_part::apply(const part_change& change) {
  check(change);
  const flush_denormals flushing;
  make_unique(value_);
  ++version_;
  if (change.what == kind::gradient)
    return apply_gradient(change);
  with_element(value_.type(), [&](auto zero) {
    using element = decltype(zero);
    const auto values = value_.mutable_data<element>();
    if (change.all)
      return combine(change.what, values, change.all.data<element>());
    const auto n = change.rows.row_size();
    const auto operand = change.rows.rows().data<element>();
    for_rows(change.rows, [&](std::size_t first, std::size_t i) {
      combine(change.what, values.subspan(first, n), operand.subspan(i * n, n));
    });
  });
}

void stored_part::apply_gradient(const part_change& change) {
  const auto& rule = *change.rule;
  auto& state = optimizers_[change.optimizer];
  for (auto slot = state.slots.size(); slot < rule.slots(); ++slot)
    state.slots.push_back(
      tensor::full(value_.dims(), rule.initial_slot_value(slot)));
  for (auto& slot : state.slots)
    make_unique(slot);
  const auto step = rule.step_at(
    ++state.steps, change.learning_rate.value_or(rule.learning_rate()),
    change.scale);
  auto* const values = value_.mutable_data<float>().data();
  const auto update = [&](std::size_t first, const float* gradient,
                          std::size_t n) {
    std::array<float*, 2> slots{};
    for (std::size_t i = 0; i < state.slots.size(); ++i)
      slots[i] = state.slots[i].mutable_data<float>().data() + first;
    step(values + first, gradient, slots, n);
  };
  if (change.all)
    return update(0, change.all.data<float>().data(), value_.size());
  const auto rows = change.rows.sorted();
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
  return sum;
}

} // namespace troupe::parameter_server
