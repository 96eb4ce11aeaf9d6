#include "troupe/tensors/context.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/detail/converted_inputs.hpp"
#include "troupe/tensors/detail/tape_impl.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

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

/// Requests the gradient of a leaf, which may be sparse.
void tape::impl::request_sparse_gradient(std::int32_t leaf, std::size_t index) {
  request_gradient(leaf, index, {});
  values[std::size_t(leaf)].accepts_rows = true;
}

/// Requests the gradient of a variable.
/// @param destination Null: the gradient may be sparse.
/// @returns false if no op has read the variable.
bool tape::impl::request(const variable& x, std::size_t index,
                         const tensor* destination) {
  const auto leaf = leaves.find(x.id());
  if (leaf == variable_table::absent)
    return false;
  if (values[leaf].request_index >= 0)
    throw std::logic_error("the gradient of " + x.name()
                           + " is requested twice in one list");
  if (destination)
    request_gradient(std::int32_t(leaf), index, *destination);
  else
    request_sparse_gradient(std::int32_t(leaf), index);
  return true;
}

void tape::impl::start(const tensor& loss) {
  const auto index = index_of(loss);
  if (index == constant)
    throw std::logic_error("the tape did not record the loss "
                           + to_string(loss.spec()));
  auto& seed = values[std::size_t(index)];
  seed.gradient = tensor::full(seed.spec.dims, 1, seed.spec.type, seed.on);
  if (seed.leaf && seed.destination)
    seed.destination.copy_from(seed.gradient), seed.gradient = seed.destination;
  for (const auto& x : nodes)
    if (std::ranges::any_of(x.source, [this](std::int32_t source) {
          return source != constant
                 && values[std::size_t(source)].requires_gradient;
        }))
      for (auto& result : results_of(x))
        result.requires_gradient = result.has_gradient;
}

void tape::impl::run(const tape::completed& hook) {
  for (auto entry = nodes.rbegin(); entry != nodes.rend(); ++entry) {
    const auto results = results_of(*entry);
    if (std::ranges::any_of(results, [](const value& x) {
          return x.gradient && x.requires_gradient;
        }))
      entry->definition->is_reshape ? pass_through(*entry) : backward(*entry);
    for (auto& x : results)
      x.gradient = {};
    release(*entry, hook);
  }
}

void tape::impl::backward(node& entry) {
  const tf32_scope as_forward{entry.allows_tf32};
  op_call call;
  call.definition = entry.definition;
  call.type = entry.kernels->type;
  call.on = results_of(entry)[0].on;
  call.options = std::move(entry.options);
  const auto count = entry.source.size();
  if (!entry.definition->saves_inputs)
    entry.in = small_list<tensor, 3>(count);
  call.in = {entry.in.data(), count};
  call.out = entry.definition->saves_outputs
               ? std::move(entry.out)
               : small_list<tensor, 1>(entry.results);
  call.saved = std::move(entry.saved);
  for (auto& x : results_of(entry)) {
    if (!x.gradient && x.has_gradient)
      x.gradient = tensor::zeros(x.spec.dims, x.spec.type, x.on);
    call.grad_out.push_back(std::move(x.gradient));
  }
  small_list<tensor, 4> grads(count);
  small_list<bool, 4> accumulate(count, false);
  // True: input i is the same value as an earlier input; the two gradients are
  // added after the kernel has run.
  small_list<bool, 4> repeated(count, false);
  pooled<sparse_rows> rows;
  small_list<bool, 4> sparse(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto source = entry.source[i];
    if (source == constant || !values[std::size_t(source)].requires_gradient)
      continue;
    auto& target = values[std::size_t(source)];
    sparse[i] = takes_rows(entry, i);
    if (sparse[i]) {
      rows.resize(count);
      continue;
    }
    make_dense(source);
    const auto before = entry.source.begin() + std::ptrdiff_t(i);
    repeated[i] = std::find(entry.source.begin(), before, source) != before;
    if (repeated[i]) {
      grads[i] = tensor{target.spec, target.on};
    } else if (target.gradient) {
      grads[i] = target.gradient;
      accumulate[i] = true;
    } else {
      grads[i] = target.gradient = target.destination
                                     ? target.destination
                                     : tensor{target.spec, target.on};
    }
  }
  call.grad_in = {grads.data(), count};
  call.accumulate = {accumulate.data(), count};
  call.grad_rows = rows;
  call.sparse = {sparse.data(), count};
  const flush_denormals flushing;
  if (entry.converts) {
    run_converted(entry, call);
  } else {
    captured_operands::keep(call);
    entry.kernels->backward(call);
  }
  // First, because a dense gradient may follow for the same value.
  for (std::size_t i = 0; i < count; ++i)
    if (sparse[i])
      add_rows(entry.source[i], std::move(rows[i]));
  for (std::size_t i = 0; i < count; ++i)
    if (repeated[i]) {
      make_dense(entry.source[i]);
      add_in_place(values[std::size_t(entry.source[i])].gradient, grads[i]);
    }
}

/// True if the gradient of input `i` of an op is sparse.
bool tape::impl::takes_rows(const node& x, std::size_t i) const {
  const auto& target = values[std::size_t(x.source[i])];
  return target.accepts_rows && !target.gradient
         && x.definition->input(i).has_sparse_gradient;
}

void tape::impl::add_rows(std::int32_t to, sparse_rows rows) {
  auto& target = values[std::size_t(to)];
  if (!rows || rows.dims() != target.spec.dims)
    throw std::logic_error("an op with a sparse gradient gave rows of "
                           + (rows ? to_string(rows.dims()) : "no tensor")
                           + " as the gradient of " + to_string(target.spec));
  target.has_rows = true;
  row_parts.push_back({to, std::move(rows)});
}

/// Makes the rows of a gradient a part of a dense tensor, to which another op
/// adds.
void tape::impl::make_dense(std::int32_t index) {
  auto& target = values[std::size_t(index)];
  if (!target.has_rows)
    return;
  const auto dense =
    take_rows(index).dense().as(target.spec.type).to(target.on);
  if (target.gradient) // other inputs of the same op have added to it
    add_in_place(target.gradient, dense);
  else
    target.gradient = dense;
}

/// Returns the rows of a gradient, not sorted. Of those that a kernel for
/// float32 has computed for a value in bfloat16, the sum is to be rounded.
sparse_rows tape::impl::take_rows(std::int32_t index) {
  values[std::size_t(index)].has_rows = false;
  pooled<sparse_rows> parts;
  bool is_wide = false;
  for (auto& x : row_parts)
    if (x.value == index) {
      is_wide |= x.rows.type() != dtype::bfloat16;
      parts.push_back(std::exchange(x.rows, {}));
    }
  std::erase_if(row_parts, [](const row_part& x) { return !x.rows; });
  for (auto& x : parts)
    if (is_wide && x.type() == dtype::bfloat16)
      x = x.as(dtype::float32);
  return concat(parts);
}

/// Runs a backward kernel of another dtype than that of the call on converted
/// tensors, and rounds the gradients that it computes.
void tape::impl::run_converted(const node& entry, op_call& call) {
  const auto type = entry.kernels->type;
  const auto& definition = *entry.definition;
  const auto inputs = detail::converted_inputs(definition, call.in, type);
  call.in = {inputs.data(), inputs.size()};
  for (auto* list : {&call.out, &call.grad_out})
    for (auto& x : *list)
      if (x && is_float(x.type()))
        x = x.as(type);
  const auto rounded = call.grad_in;
  const auto adds = std::exchange(call.accumulate, {});
  small_list<tensor, 4> computed(rounded.size());
  for (std::size_t i = 0; i < rounded.size(); ++i)
    if (rounded[i])
      computed[i] =
        tensor{{rounded[i].dims(),
                definition.input(i).dtypes.empty() ? type : rounded[i].type()},
               rounded[i].device()};
  call.grad_in = {computed.data(), computed.size()};
  captured_operands::keep(call);
  entry.kernels->backward(call);
  call.grad_in = rounded;
  call.accumulate = adds;
  for (std::size_t i = 0; i < rounded.size(); ++i)
    if (rounded[i]) {
      if (call.accumulates(i))
        add_in_place(computed[i], rounded[i].as(computed[i].type()));
      rounded[i].copy_from(computed[i].as(rounded[i].type()));
    }
}

void tape::impl::pass_through(node& entry) {
  if (entry.source[0] == constant
      || !values[std::size_t(entry.source[0])].requires_gradient)
    return;
  make_dense(entry.source[0]);
  auto& target = values[std::size_t(entry.source[0])];
  const auto gradient =
    std::move(results_of(entry)[0].gradient).reshaped(target.spec.dims);
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
  if (leaf.accepts_rows) {
    auto& out = (*sparse_results)[std::size_t(leaf.request_index)];
    if (leaf.has_rows)
      out = take_rows(static_cast<std::int32_t>(&leaf - values.data()))
              .sorted()
              .as(leaf.spec.type);
    else if (leaf.gradient)
      out = leaf.gradient;
    else if (leaf.is_read_densely)
      out = tensor::zeros(leaf.spec.dims, leaf.spec.type, leaf.on);
    else
      out = sparse_rows::zeros(leaf.spec);
    return;
  }
  if (!leaf.gradient) {
    leaf.destination.set_zero();
    leaf.gradient = leaf.destination;
  }
  if (hook)
    hook(std::size_t(leaf.request_index));
}

void tape::impl::run(const tensor& loss, std::span<const variable> variables,
                     const tensors& destinations, const tape::completed& hook) {
  consume();
  pooled<std::size_t> unused;
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (!request(variables[i], i, sparse_results ? nullptr : &destinations[i]))
      unused.push_back(i);
  start(loss);
  for (const auto i : unused) {
    if (sparse_results)
      (*sparse_results)[i] = tensor::zeros(variables[i].dims(), dtype::float32,
                                           variables[i].device());
    else
      tensor{destinations[i]}.set_zero();
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
    out.emplace_back(tensor_spec{x.dims()}, x.device());
  impl_->run(loss, variables, out, {});
  return out;
}

parameter_gradients
tape::sparse_gradients(const tensor& loss,
                       std::span<const variable> variables) {
  parameter_gradients out(variables.size());
  impl_->sparse_results = &out; // only until `run` ends: it can run only once
  impl_->run(loss, variables, {}, {});
  return out;
}

parameter_gradients tape::sparse_gradients(const tensor& loss,
                                           std::span<const tensor> watched) {
  impl_->consume();
  parameter_gradients out(watched.size());
  impl_->sparse_results = &out;
  pooled<std::int32_t> leaves;
  for (std::size_t i = 0; i < watched.size(); ++i) {
    leaves.push_back(impl_->watched_leaf(watched[i]));
    impl_->request_sparse_gradient(leaves.back(), i);
  }
  impl_->start(loss);
  impl_->run({});
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!out[i]) { // no op has read it
      const auto& leaf = impl_->values[std::size_t(leaves[i])];
      out[i] = leaf.gradient
                 ? leaf.gradient
                 : tensor::zeros(leaf.spec.dims, leaf.spec.type, leaf.on);
    }
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

void tape::gradient_into_variables(const tensor& loss,
                                   std::span<const variable> variables,
                                   std::span<const variable> tables,
                                   parameter_gradients& rows,
                                   const completed& hook) {
  if (rows.size() != tables.size())
    throw std::logic_error("room for " + std::to_string(rows.size())
                           + " gradients of " + std::to_string(tables.size())
                           + " tables");
  impl_->consume();
  impl_->sparse_results = &rows; // only until `run` ends: it can run only once
  pooled<std::size_t> unused;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto destination = variables[i].gradient();
    if (!impl_->request(variables[i], i, &destination))
      unused.push_back(i);
  }
  for (std::size_t i = 0; i < tables.size(); ++i)
    if (!impl_->request(tables[i], i, nullptr))
      rows[i] = sparse_rows::zeros({tables[i].dims()});
  impl_->start(loss);
  for (const auto i : unused) {
    variables[i].gradient().set_zero();
    if (hook)
      hook(i);
  }
  impl_->run(hook);
  for (std::size_t i = 0; i < tables.size(); ++i)
    if (!rows[i].is_sparse())
      throw std::logic_error(
        "the gradient of the table " + tables[i].name()
        + " is dense, because an op without a sparse gradient has read it; "
          "read the table by embedding_lookup only");
}

/// Returns the leaf of a watched tensor.
std::int32_t tape::impl::watched_leaf(const tensor& input) const {
  const auto index = index_of(input);
  if (index == constant || !values[std::size_t(index)].leaf)
    throw std::logic_error("the tape does not watch "
                           + to_string(input.spec()));
  if (values[std::size_t(index)].request_index >= 0)
    throw std::logic_error("the gradient of a watched "
                           + to_string(input.spec())
                           + " is requested twice in one list");
  return index;
}

tensors tape::gradient(const tensor& loss, std::span<const tensor> watched) {
  impl_->consume();
  tensors out;
  out.reserve(watched.size());
  for (const auto& input : watched) {
    const auto leaf = impl_->watched_leaf(input);
    out.push_back(tensor::zeros(input.dims(), input.type(), input.device()));
    impl_->request_gradient(leaf, out.size() - 1, out.back());
  }
  impl_->start(loss);
  impl_->run({});
  return out;
}

} // namespace troupe
