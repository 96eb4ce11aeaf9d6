#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/tape_impl.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe {

void tape::impl::consume() {
  if (consumed)
    throw std::logic_error(
      "gradients of a tape were requested a second time; make "
      "a tape for each loss");
  consumed = true;
}

/// Requests the gradient of a leaf.
/// @param destination Receives the gradient.
/// @param index Index of the leaf in the list of requested gradients.
void tape::impl::request_gradient(std::int32_t leaf, std::size_t index,
                                  const tensor& destination) {
  auto& x = values[std::size_t(leaf)];
  x.destination = destination;
  x.request_index = std::int32_t(index);
  x.requires_gradient = true;
}

void tape::impl::start(const tensor& loss) {
  const auto index = index_of(loss);
  if (index == constant)
    throw std::logic_error("the tape did not record the loss "
                           + to_string(loss.spec()));
  auto& seed = values[std::size_t(index)];
  seed.gradient = tensor::full(seed.spec.dims, 1, seed.spec.type);
  if (seed.leaf && seed.destination)
    seed.destination.copy_from(seed.gradient), seed.gradient = seed.destination;
  for (const auto& x : nodes)
    for (const auto source : x.source)
      if (source != constant && values[std::size_t(source)].requires_gradient)
        values[std::size_t(x.result)].requires_gradient = true;
}

void tape::impl::run(const tape::completed& hook) {
  for (auto entry = nodes.rbegin(); entry != nodes.rend(); ++entry) {
    auto& result = values[std::size_t(entry->result)];
    if (result.gradient && result.requires_gradient)
      entry->definition->is_reshape ? pass_through(*entry) : backward(*entry);
    result.gradient = {};
    release(*entry, hook);
  }
}

void tape::impl::backward(node& entry) {
  op_call call;
  call.options = entry.options;
  call.in = {entry.in.data(), entry.definition->arity};
  call.out = std::move(entry.out);
  call.saved = std::move(entry.saved);
  call.grad_out = std::move(values[std::size_t(entry.result)].gradient);
  std::array<tensor, 4> grads;
  // True: input i is the same value as an earlier input; the two gradients are
  // added after the kernel has run.
  std::array<bool, 4> repeated{};
  for (std::size_t i = 0; i < entry.definition->arity; ++i) {
    if (entry.source[i] == constant
        || !values[std::size_t(entry.source[i])].requires_gradient)
      continue;
    auto& target = values[std::size_t(entry.source[i])];
    repeated[i] = std::find(entry.source.begin(),
                            entry.source.begin() + long(i), entry.source[i])
                  != entry.source.begin() + long(i);
    if (repeated[i]) {
      grads[i] = tensor{target.spec};
    } else if (target.gradient) {
      grads[i] = target.gradient;
      call.accumulate |= 1u << i;
    } else {
      grads[i] = target.gradient =
        target.destination ? target.destination : tensor{target.spec};
    }
  }
  call.grad_in = {grads.data(), entry.definition->arity};
  const bool wide = call.grad_out.type() == dtype::float64;
  const auto kernel =
    wide ? entry.definition->reference_backward
         : entry.definition->backward[std::size_t(device_kind::cpu)];
  if (!kernel)
    throw std::logic_error(std::string{entry.definition->name}
                           + " has no gradient for this dtype");
  const flush_denormals flushing;
  kernel(call);
  for (std::size_t i = 0; i < entry.definition->arity; ++i)
    if (repeated[i])
      add_in_place(values[std::size_t(entry.source[i])].gradient, grads[i]);
}

void tape::impl::pass_through(node& entry) {
  if (entry.source[0] == constant
      || !values[std::size_t(entry.source[0])].requires_gradient)
    return;
  auto& target = values[std::size_t(entry.source[0])];
  const auto gradient = std::move(values[std::size_t(entry.result)].gradient)
                          .reshaped(target.spec.dims);
  if (target.gradient) {
    add_in_place(target.gradient, gradient);
  } else if (target.destination) {
    target.destination.copy_from(gradient);
    target.gradient = target.destination;
  } else {
    target.gradient = gradient;
  }
}

void tape::impl::release(node& entry, const tape::completed& hook) {
  for (const auto source : entry.source)
    if (source != constant) {
      auto& from = values[std::size_t(source)];
      if (--from.uses == 0 && from.leaf)
        complete(from, hook);
    }
  entry = node{};
}

void tape::impl::complete(value& leaf, const tape::completed& hook) {
  if (leaf.request_index < 0)
    return;
  if (!leaf.gradient) {
    std::memset(leaf.destination.raw(), 0, leaf.destination.bytes());
    leaf.gradient = leaf.destination;
  }
  if (hook)
    hook(std::size_t(leaf.request_index));
}

void tape::impl::run(const tensor& loss, std::span<const variable> variables,
                     const tensors& destinations, const tape::completed& hook) {
  consume();
  pooled<std::size_t> unused;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto leaf_index = leaves.find(variables[i].id());
    if (leaf_index == variable_table::absent) {
      unused.push_back(i);
      continue;
    }
    if (values[leaf_index].request_index >= 0)
      throw std::logic_error("the gradient of " + variables[i].name()
                             + " is requested twice in one list");
    request_gradient(std::int32_t(leaf_index), i, destinations[i]);
  }
  start(loss);
  for (const auto i : unused) {
    std::memset(destinations[i].raw(), 0, destinations[i].bytes());
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
  impl_->consume();
  tensors out;
  out.reserve(watched.size());
  for (const auto& input : watched) {
    const auto index = impl_->index_of(input);
    if (index == impl::constant || !impl_->values[std::size_t(index)].leaf)
      throw std::logic_error("the tape does not watch "
                             + to_string(input.spec()));
    if (impl_->values[std::size_t(index)].request_index >= 0)
      throw std::logic_error("the gradient of a watched "
                             + to_string(input.spec())
                             + " is requested twice in one list");
    out.push_back(tensor::zeros(input.dims(), input.type()));
    impl_->request_gradient(index, out.size() - 1, out.back());
  }
  impl_->start(loss);
  impl_->run({});
  return out;
}

} // namespace troupe
