#include "troupe/tensors/detail/op_check_cases.hpp"

#include "troupe/tensors/device_backend.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <stdexcept>

namespace troupe::detail {

namespace {

/// Returns a uniformly distributed multiple of 2^-24 in [0, 1). It is the same
/// with every standard library.
float unit(std::mt19937& rng) {
  return static_cast<float>(rng() >> 8) * 0x1p-24f;
}

template <class... Ts>
std::string text(const Ts&... parts) {
  std::ostringstream out;
  out.precision(9);
  (out << ... << parts);
  return out.str();
}

std::vector<dtype> list_of(const dtype_set& types) {
  std::vector<dtype> out;
  for (std::size_t i = 0; i < dtype_count; ++i)
    if (types.contains(static_cast<dtype>(i)))
      out.push_back(static_cast<dtype>(i));
  return out;
}

/// Returns the sum of weights * op(in) over all outputs, in float64.
double weighted(const tried_op& x, std::vector<tensor> in,
                const std::vector<tensor>& weights) {
  run_of_op run{x, std::move(in)};
  double sum = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (!weights[k])
      continue;
    const auto y = run.call.out[k].data<double>(),
               w = weights[k].data<double>();
    for (std::size_t i = 0; i < y.size(); ++i)
      sum += y[i] * w[i];
  }
  return sum;
}

std::vector<tensor> as_float64(const std::vector<tensor>& list) {
  std::vector<tensor> out;
  for (const auto& x : list)
    out.push_back(x ? x.as(dtype::float64) : x);
  return out;
}

/// Returns the maximum difference, relative to the largest magnitude in
/// `right`.
double error_of(const tensor& left, const tensor& right) {
  double largest = 1e-30, worst = 0;
  const auto wide = left.as(dtype::float64).to({}), reference = right.to({});
  const auto a = wide.data<double>(), b = reference.data<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : 1e30);
  }
  return worst / largest;
}

/// Returns a copy that begins one element after a multiple of 64 bytes.
tensor displaced(const tensor& x, const device& on) {
  tensor roomy{{{std::int64_t(x.size()) + 1}, x.type()}, on};
  auto out = roomy.range(1, x.size() + 1).reshaped(x.dims());
  out.copy_from(x);
  return out;
}

} // namespace

std::string tried_op::description() const {
  std::string shapes;
  for (const auto& x : tested_case().in)
    shapes += " " + to_string(x);
  return std::string{definition->name} + ", case " + std::to_string(index)
         + " on" + shapes + ", seed " + std::to_string(seed())
         + (on == device{} ? std::string{} : ", device " + to_string(on));
}

std::vector<dtype> tried_op::types() const {
  if (definition->kernels.empty())
    return {dtype::float32, dtype::float64};
  std::vector<dtype> out;
  for (std::size_t i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    if (const auto* const found = kernels_on(on, *definition, type);
        found && found->type == type)
      out.push_back(type);
  }
  return out;
}

std::size_t own_dtype_choices(const tried_op& x) {
  std::size_t most = 1;
  for (const auto& one : x.definition->inputs)
    most = std::max(most, list_of(one.dtypes).size());
  return most;
}

std::vector<tensor> draw(const tried_op& x, dtype type, std::size_t own) {
  std::mt19937 rng{x.seed()};
  std::vector<tensor> out;
  const auto& c = x.tested_case();
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const auto own_list = list_of(x.definition->input(i).dtypes);
    if (!own_list.empty()) {
      const auto own_type = own_list[own % own_list.size()];
      tensor t{c.in[i], dtype::float32};
      for (auto& v : t.mutable_data<float>())
        v = is_float(own_type) ? c.low + unit(rng) * (c.high - c.low)
                               : float(rng() % unsigned(c.high));
      out.push_back(t.as(own_type));
      continue;
    }
    tensor t{c.in[i], dtype::float32};
    for (auto& v : t.mutable_data<float>()) {
      const auto near_kink = [&] {
        for (const float kink : x.definition->nondifferentiable_points)
          if (std::abs(v - kink) < 1e-3f)
            return true;
        return false;
      };
      do
        v = c.low + unit(rng) * (c.high - c.low);
      while (near_kink());
      if (type == dtype::boolean)
        v = rng() % 2 != 0;
      else if (!is_float(type))
        v = std::floor(v);
    }
    out.push_back(t.as(type));
  }
  return out;
}

tensor draw_gradient(const op_output& output, std::uint32_t seed) {
  if (!output.has_gradient())
    return {};
  std::mt19937 rng{seed};
  tensor t{output.spec.dims, dtype::float32};
  for (auto& v : t.mutable_data<float>())
    v = 2 * unit(rng) - 1;
  return t.as(output.spec.type);
}

run_of_op::run_of_op(const tried_op& x, std::vector<tensor> inputs)
  : definition{x.definition}, on{x.on}, in{std::move(inputs)} {
  std::vector<tensor_spec> specs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = in[i].to(on);
    specs.push_back(in[i].spec());
    if (definition->input(i).dtypes.empty())
      type = in[i].type();
  }
  call.definition = definition;
  call.type = type;
  call.on = on;
  call.options = x.tested_case().options;
  call.in = in;
  outputs = definition->infer(specs, call.options);
  if (definition->is_reshape)
    call.out.push_back(in[0].reshaped(outputs[0].spec.dims));
  else if (definition->view)
    definition->view(call);
  else
    for (const auto& one : outputs)
      call.out.push_back(tensor{one.spec, on});
  if (call.out.size() != outputs.size())
    throw std::logic_error(text("the shape rule says ", outputs.size(),
                                " outputs, but there are ", call.out.size()));
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (call.out[k].spec() != outputs[k].spec)
      throw std::logic_error("the shape rule says " + to_string(outputs[k].spec)
                             + ", but the result is "
                             + to_string(call.out[k].spec()));
  if (x.has_kernels())
    kernels_on(on, *definition, type)->forward(call);
}

std::vector<tensor> run_of_op::draw_gradients(std::uint32_t seed) const {
  std::vector<tensor> out;
  for (const auto& one : outputs)
    out.push_back(draw_gradient(one, seed++));
  return out;
}

std::vector<tensor> run_of_op::backward(const std::vector<tensor>& grad_out,
                                        const std::vector<bool>& wanted,
                                        bool add) {
  std::vector<tensor> grads(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    if ((wanted.empty() || wanted[i])
        && (definition->input(i).differentiable && is_float(in[i].type())))
      grads[i] = tensor::full(in[i].dims(), add ? 1 : NAN, in[i].type(), on);
  const small_list<bool, 4> accumulate(in.size(), add);
  run_backward(grad_out, [&](op_call& c) {
    c.grad_in = grads;
    c.accumulate = {accumulate.data(), accumulate.size()};
  });
  return grads;
}

sparse_rows run_of_op::backward_rows(const std::vector<tensor>& grad_out,
                                     std::size_t i) {
  std::vector<tensor> none(in.size());
  std::vector<sparse_rows> rows(in.size());
  small_list<bool, 4> sparse(in.size(), false);
  sparse[i] = true;
  run_backward(grad_out, [&](op_call& c) {
    c.grad_in = none;
    c.grad_rows = rows;
    c.sparse = {sparse.data(), sparse.size()};
  });
  return rows[i];
}

void run_of_op::run_backward(const std::vector<tensor>& grad_out,
                             const std::function<void(op_call&)>& request) {
  auto c = call;
  const std::vector<tensor> unsaved(in.size());
  if (!definition->saves_inputs)
    c.in = unsaved;
  if (!definition->saves_outputs)
    c.out = small_list<tensor, 1>(call.out.size());
  for (const auto& one : grad_out)
    c.grad_out.push_back(one ? one.clone().to(on) : one);
  request(c);
  kernels_on(on, *definition, type)->backward(c);
}

std::vector<std::string> check_reference_gradient(const tried_op& x) {
  std::vector<std::string> failures;
  if (!x.differentiable() || x.on != device{})
    return failures;
  const auto in = draw(x, dtype::float64);
  run_of_op run{x, in};
  const auto gy = run.draw_gradients(77);
  const auto grads = run.backward(gy);
  std::mt19937 rng{x.seed()};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!grads[i])
      continue;
    const auto size = in[i].size();
    for (std::size_t n = 0; n < std::min<std::size_t>(size, 24); ++n) {
      const auto element = size <= 24 ? n : rng() % size;
      constexpr double h = 1e-6;
      double side[2];
      for (int s = 0; s < 2; ++s) {
        auto moved = in;
        moved[i] = in[i].clone();
        moved[i].mutable_data<double>()[element] += s ? h : -h;
        side[s] = weighted(x, moved, gy);
      }
      const double got = grads[i].data<double>()[element];
      const double slope = (side[1] - side[0]) / (2 * h);
      const double bound = 1e-6 * std::max(1.0, std::abs(slope)) + 1e-7;
      if (!(std::abs(got - slope) <= bound))
        failures.push_back(text(
          "the gradient of input ", i, " is ", got, " at element ", element,
          ", but central differences of the reference give ", slope));
    }
  }
  return failures;
}

namespace {

/// Compares the kernels of one dtype with the float64 reference.
void compare_kernels(const tried_op& x, dtype type, std::size_t own,
                     std::vector<std::string>& failures) {
  const auto compare = [&](const std::string& result, const tensor& got,
                           const tensor& want) {
    const auto bound =
      !is_float(got.type()) ? 0.0
      : type == dtype::bfloat16
        ? x.tested_case().bound + x.tested_case().bfloat16_rounding
        : x.tested_case().bound;
    const auto error = error_of(got, want);
    if (!(error <= bound))
      failures.push_back(text("the ", to_string(type), " kernel's ", result,
                              " differs from the reference by ", error,
                              " of the largest magnitude, but the bound of the "
                              "case is ",
                              bound));
  };
  const auto in = draw(x, type, own);
  auto wide_in = in;
  const bool is_wide =
    !x.has_kernels() || x.definition->find_kernels(dtype::float64);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (is_wide && x.definition->input(i).dtypes.empty())
      wide_in[i] = in[i].as(dtype::float64);
  run_of_op narrow{x, in}, wide{x.on_cpu(), wide_in};
  const auto count = narrow.call.out.size();
  for (std::size_t k = 0; k < count; ++k)
    compare(count == 1 ? "result" : "output " + std::to_string(k),
            narrow.call.out[k], wide.call.out[k].as(dtype::float64));
  if (!x.differentiable() || !is_float(type))
    return;
  const auto gy = narrow.draw_gradients(78);
  const auto got = narrow.backward(gy);
  const auto want = wide.backward(as_float64(gy));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i])
      compare("gradient of input " + std::to_string(i), got[i], want[i]);
}

} // namespace

std::vector<std::string> check_kernels(const tried_op& x) {
  std::vector<std::string> failures;
  const bool has_reference =
    !x.has_kernels() || x.definition->find_kernels(dtype::float64);
  for (const auto type : x.types())
    for (std::size_t own = 0; own < own_dtype_choices(x); ++own)
      if (x.on != device{} || (has_reference && type != dtype::float64))
        compare_kernels(x, type, own, failures);
  return failures;
}

std::vector<std::string> check_accumulation(const tried_op& x) {
  std::vector<std::string> failures;
  if (!x.differentiable())
    return failures;
  for (const auto type : x.types()) {
    if (!is_float(type))
      continue;
    const auto bound = type == dtype::bfloat16 ? 0x1p-7 : 1e-5;
    run_of_op run{x, draw(x, type)};
    const auto gy = run.draw_gradients(79);
    const auto fresh = run.backward(gy), added = run.backward(gy, {}, true);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const auto wide = [&](const tensor& one) {
        return one ? one.as(dtype::float64).to({}) : one;
      };
      const auto wide_fresh = wide(fresh[i]), wide_added = wide(added[i]);
      for (std::size_t at = 0; fresh[i] && at < fresh[i].size(); ++at) {
        const auto f = wide_fresh.data<double>()[at];
        const auto a = wide_added.data<double>()[at];
        if (!(std::abs(a - f - 1) <= bound * (std::abs(f) + 1))) {
          failures.push_back(
            text("the ", to_string(type), " gradient of input ", i, " is ", f,
                 " at element ", at, ", but added to 1 it gives ", a,
                 "; add to grad_in[", i, "] if accumulates(", i, ")"));
          break;
        }
        at += fresh[i].size() / 100; // Samples a large gradient.
      }
    }
  }
  return failures;
}

std::vector<std::string> check_requested_gradients(const tried_op& x) {
  std::vector<std::string> failures;
  if (!x.differentiable())
    return failures;
  for (const auto type : x.types()) {
    if (!is_float(type))
      continue;
    run_of_op run{x, draw(x, type)};
    const auto gy = run.draw_gradients(80);
    const auto all_gradients = run.backward(gy);
    for (std::size_t i = 0; i < all_gradients.size(); ++i) {
      if (!all_gradients[i])
        continue;
      std::vector<bool> wanted(all_gradients.size());
      wanted[i] = true;
      const auto one = run.backward(gy, wanted);
      if (!same_bits(one[i], all_gradients[i]))
        failures.push_back(text("the gradient of input ", i,
                                " has other bits if it is the only one that is "
                                "requested"));
    }
  }
  return failures;
}

std::vector<std::string> check_sparse_gradients(const tried_op& x) {
  std::vector<std::string> failures;
  if (!x.differentiable())
    return failures;
  for (const auto type : x.types()) {
    if (!is_float(type))
      continue;
    const auto bound = type == dtype::bfloat16 ? 0x1p-7 : 1e-5;
    run_of_op run{x, draw(x, type)};
    const auto gy = run.draw_gradients(82);
    const auto dense = run.backward(gy);
    for (std::size_t i = 0; i < dense.size(); ++i) {
      if (!dense[i] || !x.definition->input(i).has_sparse_gradient)
        continue;
      const auto rows = run.backward_rows(gy, i);
      const auto complaint = [&](const auto&... what) {
        failures.push_back(text("the sparse ", to_string(type),
                                " gradient of input ", i, what...));
      };
      if (!rows)
        complaint(" is missing; set grad_rows[", i, "] if wants_rows(", i, ")");
      else if (rows.dims() != run.in[i].dims() || rows.type() != type)
        complaint(" is that of ", to_string({rows.dims(), rows.type()}));
      else if (const auto error =
                 error_of(rows.sorted().dense(), dense[i].as(dtype::float64));
               !(error <= bound))
        complaint(" differs from the dense one by ", error,
                  " of the largest magnitude");
    }
  }
  return failures;
}

std::vector<std::string> check_displaced_inputs(const tried_op& x) {
  std::vector<std::string> failures;
  const auto compare = [&](const std::string& result, const tensor& a,
                           const tensor& b) {
    if (!same_bits(a, b))
      failures.push_back(result
                         + " has other bits if the inputs begin one element "
                           "after a multiple of 64 bytes");
  };
  for (const auto type : x.types()) {
    const auto in = draw(x, type);
    std::vector<tensor> moved;
    for (const auto& t : in)
      moved.push_back(displaced(t, x.on));
    run_of_op a{x, in}, b{x, moved};
    for (std::size_t k = 0; k < a.call.out.size(); ++k)
      compare(text("output ", k), a.call.out[k], b.call.out[k]);
    if (!x.differentiable() || !is_float(type))
      continue;
    const auto gy = a.draw_gradients(81);
    const auto ga = a.backward(gy), gb = b.backward(gy);
    for (std::size_t i = 0; i < ga.size(); ++i)
      if (ga[i])
        compare(text("the gradient of input ", i), ga[i], gb[i]);
  }
  return failures;
}

} // namespace troupe::detail
