#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/tape_impl.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe {

void tape::impl::begin() {
  if (spent)
    throw std::logic_error(
      "gradients of a tape were requested a second time; make "
      "a tape for each loss");
  spent = true;
}

/// Requests the gradient of a leaf.
/// @param destination Receives the gradient.
/// @param index Position in the caller's list.
void tape::impl::ask(std::int32_t leaf, std::size_t place, const tensor& home) {
  auto& x = values[std::size_t(leaf)];
  x.home = home;
  x.asked = std::int32_t(place);
  x.needed = true;
}

void tape::impl::start(const tensor& loss) {
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
  std::array<bool, 4>
    apart{}; // The same value as an earlier input: added afterwards.
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

void tape::impl::run(const tensor& loss, std::span<const variable> variables,
                     const tensors& homes, const tape::completed& hook) {
  begin();
  pooled<std::size_t> unused;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto place = leaves.find(variables[i].id());
    if (place == leaf_table::absent) {
      unused.push_back(i);
      continue;
    }
    if (values[place].asked >= 0)
      throw std::logic_error("the gradient of " + variables[i].name()
                             + " is requested twice in one list");
    ask(std::int32_t(place), i, homes[i]);
  }
  start(loss);
  for (const auto i : unused) {
    std::memset(homes[i].raw(), 0, homes[i].bytes());
    if (hook)
      hook(i);
  }
  run(hook);
}

tensors tape::gradient(const tensor& loss,
                       std::span<const variable> variables) {
  tensors out;
  out.reserve(variables.size());
  for (const auto& x : variables)
    out.emplace_back(x.dims());
  impl_->run(loss, variables, out, {});
  return out;
}

void tape::gradient_into_variables(const tensor& loss,
                                   std::span<const variable> variables,
                                   const completed& hook) {
  tensors out;
  out.reserve(variables.size());
  for (const auto& x : variables)
    out.push_back(x.gradient());
  impl_->run(loss, variables, out, hook);
}

tensors tape::gradient(const tensor& loss, std::span<const tensor> watched) {
  impl_->begin();
  tensors out;
  out.reserve(watched.size());
  for (const auto& x : watched) {
    const auto index = impl_->index_of(x);
    if (index == impl::constant || !impl_->values[std::size_t(index)].leaf)
      throw std::logic_error("the tape does not watch " + to_string(x.spec()));
    if (impl_->values[std::size_t(index)].asked >= 0)
      throw std::logic_error("the gradient of a watched " + to_string(x.spec())
                             + " is requested twice in one list");
    out.push_back(tensor::zeros(x.dims(), x.type()));
    impl_->ask(index, out.size() - 1, out.back());
  }
  impl_->start(loss);
  impl_->run({});
  return out;
}

} // namespace troupe
