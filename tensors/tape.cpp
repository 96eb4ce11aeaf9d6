#include "troupe/tensors/tape.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/leaf_table.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/trace.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::int32_t constant = -1; ///< An input that no tape follows.

/// Anything with a gradient: a leaf (variable or watched) or an op's result.
struct value {
  tensor_spec spec;
  tensor gradient;         ///< Empty until something was added to it.
  tensor home;             ///< A leaf's: where its gradient belongs.
  std::int32_t asked = -1; ///< Place in the list that the caller gave.
  std::uint32_t uses = 0;  ///< Recorded ops that read it, not yet passed.
  bool needed = false;     ///< A gradient flows on from here.
  bool leaf = false;
};

struct node {
  const op* what = nullptr;
  op_options options;
  std::array<tensor, 4> in;
  std::array<std::int32_t, 4> source{constant, constant, constant, constant};
  tensor out, saved;
  std::int32_t result = constant;
};

std::atomic<std::uint32_t> next_serial{1};

} // namespace

struct tape::impl {
  context* owner = &current_context();
  tape* outer = nullptr;
  std::uint32_t serial =
    next_serial.fetch_add(1, std::memory_order_relaxed) & 0x7fff'ffff;
  bool spent = false;
  pooled<node> nodes;
  pooled<value> values;
  leaf_table leaves;

  std::int32_t add(value x) {
    values.push_back(std::move(x));
    return static_cast<std::int32_t>(values.size() - 1);
  }

  std::int32_t leaf_of(const tensor& x) {
    auto& place = leaves[trace::low(x.trace())];
    if (place == leaf_table::absent) {
      value leaf;
      leaf.spec = x.spec();
      leaf.leaf = true;
      place = static_cast<std::uint32_t>(add(std::move(leaf)));
    }
    return static_cast<std::int32_t>(place);
  }

  /// Index of the value behind a tensor, or `constant`.
  std::int32_t index_of(const tensor& x) const {
    return trace::is_value_of(x.trace(), serial)
             ? static_cast<std::int32_t>(trace::low(x.trace())) - 1
             : constant;
  }

  void start(const tensor& loss);
  void run(const tape::completed& hook);
  void backward(node& x);
  void pass_through(node& x);
  void release(node& x, const tape::completed& hook);
  void complete(value& leaf, const tape::completed& hook);
};

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
  value leaf;
  leaf.spec = x.spec();
  leaf.leaf = true;
  const auto index = impl_->add(std::move(leaf));
  return x.traced(
    trace::of_value(impl_->serial, static_cast<std::uint32_t>(index)));
}

bool tape::knows(std::span<const tensor> in) const {
  return std::ranges::any_of(in, [&](const tensor& x) {
    return trace::is_variable(x.trace())
           || trace::is_value_of(x.trace(), impl_->serial);
  });
}

tensor tape::record(const op& what, const op_call& call) {
  node x;
  x.what = &what;
  x.options = call.options;
  x.saved = call.saved;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const auto& in = call.in[i];
    x.source[i] =
      trace::is_variable(in.trace()) ? impl_->leaf_of(in) : impl_->index_of(in);
    if (x.source[i] != constant)
      ++impl_->values[std::size_t(x.source[i])].uses;
    if (what.keeps_inputs)
      x.in[i] = in;
  }
  if (what.keeps_output)
    x.out = call.out;
  value result;
  result.spec = call.out.spec();
  x.result = impl_->add(std::move(result));
  impl_->nodes.push_back(std::move(x));
  return call.out.traced(trace::of_value(
    impl_->serial, static_cast<std::uint32_t>(impl_->values.size() - 1)));
}

void tape::impl::start(const tensor& loss) {
  if (spent)
    throw std::logic_error("a tape was asked for gradients a second time");
  spent = true;
  const auto index = index_of(loss);
  if (index == constant)
    throw std::logic_error("the tape did not record the loss "
                           + to_string(loss.spec()));
  auto& seed = values[std::size_t(index)];
  seed.gradient = tensor::full(seed.spec.dims, 1, seed.spec.type);
  if (seed.leaf && seed.home)
    seed.home.copy_from(seed.gradient), seed.gradient = seed.home;
  for (const auto& x : nodes)
    for (const auto source : x.source)
      if (source != constant && values[std::size_t(source)].needed)
        values[std::size_t(x.result)].needed = true;
}

void tape::impl::run(const tape::completed& hook) {
  // The tape is asked once: from here on nothing new is written down.
  for (auto x = nodes.rbegin(); x != nodes.rend(); ++x) {
    auto& result = values[std::size_t(x->result)];
    if (result.gradient && result.needed)
      x->what->passes_through ? pass_through(*x) : backward(*x);
    result.gradient = {};
    release(*x, hook);
  }
}

void tape::impl::backward(node& x) {
  op_call call;
  call.options = x.options;
  call.in = {x.in.data(), x.what->arity};
  call.out = std::move(x.out);
  call.saved = std::move(x.saved);
  call.grad_out = std::move(values[std::size_t(x.result)].gradient);
  std::array<tensor, 4> grads;
  std::array<bool, 4> apart{}; // the same value twice: summed afterwards
  for (std::size_t i = 0; i < x.what->arity; ++i) {
    if (x.source[i] == constant || !values[std::size_t(x.source[i])].needed)
      continue;
    auto& to = values[std::size_t(x.source[i])];
    apart[i] =
      std::find(x.source.begin(), x.source.begin() + long(i), x.source[i])
      != x.source.begin() + long(i);
    if (apart[i]) {
      grads[i] = tensor{to.spec};
    } else if (to.gradient) {
      grads[i] = to.gradient;
      call.accumulate |= 1u << i;
    } else {
      grads[i] = to.gradient = to.home ? to.home : tensor{to.spec};
    }
  }
  call.grad_in = {grads.data(), x.what->arity};
  const bool wide = call.grad_out.type() == dtype::float64;
  const auto kernel = wide ? x.what->reference_backward
                           : x.what->backward[std::size_t(device_kind::cpu)];
  if (!kernel)
    throw std::logic_error(std::string{x.what->name}
                           + " has no gradient for this dtype");
  kernel(call);
  for (std::size_t i = 0; i < x.what->arity; ++i)
    if (apart[i])
      add_in_place(values[std::size_t(x.source[i])].gradient, grads[i]);
}

void tape::impl::pass_through(node& x) {
  if (x.source[0] == constant || !values[std::size_t(x.source[0])].needed)
    return;
  auto& to = values[std::size_t(x.source[0])];
  const auto gradient =
    std::move(values[std::size_t(x.result)].gradient).reshaped(to.spec.dims);
  if (to.gradient) {
    add_in_place(to.gradient, gradient);
  } else if (to.home) {
    to.home.copy_from(gradient);
    to.gradient = to.home;
  } else {
    to.gradient = gradient;
  }
}

void tape::impl::release(node& x, const tape::completed& hook) {
  for (const auto source : x.source)
    if (source != constant) {
      auto& from = values[std::size_t(source)];
      if (--from.uses == 0 && from.leaf)
        complete(from, hook);
    }
  x = node{};
}

void tape::impl::complete(value& leaf, const tape::completed& hook) {
  if (leaf.asked < 0)
    return;
  if (!leaf.gradient) {
    std::memset(leaf.home.raw(), 0, leaf.home.bytes());
    leaf.gradient = leaf.home;
  }
  if (hook)
    hook(std::size_t(leaf.asked));
}

tensors tape::gradient(const tensor& loss, std::span<const variable> variables,
                       const completed& hook) {
  tensors out;
  out.reserve(variables.size());
  pooled<std::int32_t> unused;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    out.push_back(variables[i].gradient());
    const auto place = impl_->leaves.find(variables[i].id());
    if (place == leaf_table::absent) {
      unused.push_back(std::int32_t(i));
      continue;
    }
    auto& leaf = impl_->values[place];
    if (leaf.asked >= 0)
      throw std::logic_error("the gradient of " + variables[i].name()
                             + " was asked for twice in one list");
    leaf.home = out.back();
    leaf.asked = std::int32_t(i);
    leaf.needed = true;
  }
  impl_->start(loss);
  for (const auto i : unused) {
    auto& zero = out[std::size_t(i)];
    std::memset(zero.raw(), 0, zero.bytes());
    if (hook)
      hook(std::size_t(i));
  }
  impl_->run(hook);
  return out;
}

tensors tape::gradient(const tensor& loss, std::span<const tensor> watched) {
  tensors out;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const auto index = impl_->index_of(watched[i]);
    if (index == constant || !impl_->values[std::size_t(index)].leaf)
      throw std::logic_error("the tape does not watch "
                             + to_string(watched[i].spec()));
    auto& leaf = impl_->values[std::size_t(index)];
    leaf.home = tensor::zeros(leaf.spec.dims, leaf.spec.type);
    leaf.asked = std::int32_t(i);
    leaf.needed = true;
    out.push_back(leaf.home);
  }
  impl_->start(loss);
  impl_->run({});
  return out;
}

} // namespace troupe
