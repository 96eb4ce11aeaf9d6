#include "troupe/tensors/tape_impl.hpp"

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

tensor tape::watch(const tensor& x) {
  if (x.type() != dtype::float32 && x.type() != dtype::float64)
    throw std::logic_error("a tape cannot watch " + to_string(x.spec())
                           + ": only floats have gradients");
  if (is_recorded(x))
    throw std::logic_error("a tape records " + to_string(x.spec())
                           + " already; watch its detach(), through which no "
                             "gradient flows back");
  impl::value leaf;
  leaf.spec = x.spec();
  leaf.leaf = true;
  const auto index = impl_->add(std::move(leaf));
  return x.traced(
    trace::of_value(impl_->serial, static_cast<std::uint32_t>(index)));
}

tape* tape::recording() {
  auto* at = current_context().recording;
  while (at && at->impl_->spent)
    at = at->impl_->outer;
  return at;
}

bool tape::knows(std::span<const tensor> in) const {
  return std::ranges::any_of(in, [&](const tensor& x) {
    return trace::is_variable(x.trace()) || impl_->has(x);
  });
}

bool is_recorded(const tensor& x) {
  if (x.trace() == 0)
    return false;
  const auto* at = tape::recording();
  if (at && trace::is_variable(x.trace()))
    return true;
  while (at && (at->impl_->spent || !at->impl_->has(x)))
    at = at->impl_->outer;
  return at != nullptr;
}

bool tape::holds(const tensor& x) {
  const bool is_variable = trace::is_variable(x.trace());
  for (auto* at = recording(); at; at = at->impl_->outer) {
    const auto& it = *at->impl_;
    if (!it.spent
        && (is_variable
              ? it.leaves.find(trace::low(x.trace())) != leaf_table::absent
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

void tape::check_others(const op& what, std::span<const tensor> in) const {
  for (const auto& x : in) {
    if (x.trace() == 0 || trace::is_variable(x.trace()) || impl_->has(x))
      continue;
    // Tracked by an older tape, which is shadowed, or by a newer one that was
    // destroyed.
    if (is_recorded(x) || trace::serial_of(x.trace()) > impl_->serial)
      throw std::logic_error(std::string{what.name}
                             + ": another tape than the "
                               "one that records now recorded its input "
                             + to_string(x.spec())
                             + "; pass the input's detach(), through which no "
                               "gradient flows back");
  }
}

tensor tape::record(const op& what, const op_call& call,
                    std::span<const tensor> in) {
  impl::node x;
  x.what = &what;
  x.options = call.options;
  x.saved = call.saved;
  for (std::size_t i = 0; i < in.size(); ++i) {
    x.source[i] = trace::is_variable(in[i].trace()) ? impl_->leaf_of(in[i])
                                                    : impl_->index_of(in[i]);
    if (x.source[i] != impl::constant)
      ++impl_->values[std::size_t(x.source[i])].uses;
    if (what.keeps_inputs)
      x.in[i] = call.in[i];
  }
  if (what.keeps_output)
    x.out = call.out;
  impl::value result;
  result.spec = call.out.spec();
  x.result = impl_->add(std::move(result));
  impl_->nodes.push_back(std::move(x));
  return call.out.traced(trace::of_value(
    impl_->serial, static_cast<std::uint32_t>(impl_->values.size() - 1)));
}

} // namespace troupe
