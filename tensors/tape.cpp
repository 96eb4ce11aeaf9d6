#include "troupe/tensors/detail/tape_impl.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

tape::tape() {
  impl_ = new (memory::allocate(sizeof(impl))) impl;
  impl_->outer = impl_->owner->recording;
  impl_->owner->recording = this;
  impl_->nodes.reserve(32);
  impl_->values.reserve(64);
}

tape::~tape() {
  assert(impl_->owner->recording == this);
  impl_->owner->recording = impl_->outer;
  impl_->~impl();
  memory::release(impl_, sizeof(impl));
}

tensor tape::watch(const tensor& input) {
  if (!is_float(input.type()))
    throw std::logic_error("a tape cannot watch " + to_string(input.spec())
                           + ": only floats have gradients");
  if (is_recorded(input))
    throw std::logic_error("a tape records " + to_string(input.spec())
                           + " already; watch its detach(), through which no "
                             "gradient flows back");
  impl::value leaf;
  leaf.spec = input.spec();
  leaf.on = input.device();
  leaf.leaf = true;
  const auto index = impl_->add(std::move(leaf));
  return input.with_trace(
    tape_ids::of_value(impl_->serial, static_cast<std::uint32_t>(index)));
}

tape* tape::recording() {
  auto* current = current_context().recording;
  while (current && current->impl_->consumed)
    current = current->impl_->outer;
  return current;
}

bool tape::tracks(std::span<const tensor> in) const {
  return std::ranges::any_of(in, [&](const tensor& x) {
    return tape_ids::is_variable(x.trace()) || impl_->has(x);
  });
}

bool is_recorded(const tensor& x) {
  if (x.trace() == 0)
    return false;
  const auto* current = tape::recording();
  if (current && tape_ids::is_variable(x.trace()))
    return true;
  while (current && (current->impl_->consumed || !current->impl_->has(x)))
    current = current->impl_->outer;
  return current != nullptr;
}

bool tape::holds(const tensor& x) {
  const bool is_variable = tape_ids::is_variable(x.trace());
  for (auto* current = recording(); current; current = current->impl_->outer) {
    const auto& it = *current->impl_;
    if (!it.consumed
        && (is_variable ? it.leaves.find(tape_ids::low(x.trace()))
                            != variable_table::absent
                        : it.has(x)))
      return true;
  }
  return false;
}

pause_recording::pause_recording()
  : before_{std::exchange(current_context().recording, nullptr)} {}

pause_recording::~pause_recording() {
  current_context().recording = before_;
}

void tape::check_other_tapes(const op& definition,
                             std::span<const tensor> in) const {
  for (const auto& input : in) {
    if (input.trace() == 0 || tape_ids::is_variable(input.trace())
        || impl_->has(input))
      continue;
    // The input is a value of another tape. The first condition is true if an
    // older tape, which this tape shadows, tracks the input. The second
    // condition is true if a newer tape, which no longer records, has tracked
    // the input.
    if (is_recorded(input)
        || tape_ids::serial_of(input.trace()) > impl_->serial)
      throw std::logic_error(std::string{definition.name}
                             + ": another tape than the "
                               "one that records now recorded its input "
                             + to_string(input.spec())
                             + "; pass the input's detach(), through which no "
                               "gradient flows back");
  }
}

void tape::record(const op& definition, const op_kernels* kernels,
                  const op_outputs& outputs, op_call& call,
                  small_list<tensor, 3>&& plain, std::span<const tensor> in) {
  auto& entry = impl_->nodes.emplace_back();
  entry.definition = &definition;
  entry.kernels = kernels;
  entry.allows_tf32 = current_context().allows_tf32;
  entry.options = std::move(call.options);
  entry.saved = std::move(call.saved);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& x = in[i];
    entry.converts |= kernels && definition.input(i).dtypes.empty()
                      && x.type() != kernels->type;
    const auto source =
      tape_ids::is_variable(x.trace()) ? impl_->leaf_of(x) : impl_->index_of(x);
    entry.source.push_back(source);
    if (source != impl::constant) {
      auto& read = impl_->values[std::size_t(source)];
      ++read.uses;
      read.is_read_densely |= !definition.input(i).has_sparse_gradient;
    }
  }
  if (definition.saves_inputs)
    entry.in = std::move(plain);
  if (definition.saves_outputs)
    entry.out = call.out;
  entry.first_result = static_cast<std::int32_t>(impl_->values.size());
  entry.results = static_cast<std::uint32_t>(call.out.size());
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    impl::value result;
    result.spec = call.out[i].spec();
    result.on = call.out[i].device();
    result.has_gradient = outputs[i].has_gradient();
    const auto index = impl_->add(std::move(result));
    if (outputs[i].has_gradient())
      call.out[i] = std::move(call.out[i])
                      .with_trace(tape_ids::of_value(
                        impl_->serial, static_cast<std::uint32_t>(index)));
  }
}

} // namespace troupe
