#include "troupe/tensors/detail/op_check_cases.hpp"

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

/// Returns sum(weights * op(in)), in float64.
double weighted(const tried_op& x, std::vector<tensor> in,
                const tensor& weights) {
  run_of_op run{x, std::move(in)};
  const auto y = run.call.out.data<double>(), w = weights.data<double>();
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += y[i] * w[i];
  return sum;
}

/// Returns the maximum difference, relative to the largest magnitude in
/// `right`.
double error_of(const tensor& left, const tensor& right) {
  double largest = 1e-30, worst = 0;
  const auto wide = left.as(dtype::float64);
  const auto a = wide.data<double>(), b = right.data<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : 1e30);
  }
  return worst / largest;
}

/// Returns a copy that begins 4 bytes after a multiple of 64.
tensor displaced(const tensor& x) {
  tensor roomy{shape{std::int64_t(x.size()) + 1}, x.type()};
  auto out = roomy.range(1, x.size() + 1).reshaped(x.dims());
  out.copy_from(x);
  return out;
}

} // namespace

std::string tried_op::description() const {
  std::string shapes;
  for (std::size_t i = 0; i < definition->arity; ++i)
    shapes += " " + to_string(tested_case().in[i]);
  return std::string{definition->name} + ", case " + std::to_string(index)
         + " on" + shapes + ", seed " + std::to_string(seed());
}

std::vector<tensor> draw(const tried_op& x, dtype type) {
  std::mt19937 rng{x.seed()};
  std::vector<tensor> out;
  const auto& c = x.tested_case();
  for (std::size_t i = 0; i < x.definition->arity; ++i) {
    if (x.definition->integers >> i & 1) {
      tensor t{c.in[i], dtype::int32};
      for (auto& v : t.mutable_data<std::int32_t>())
        v = static_cast<std::int32_t>(rng() % unsigned(c.high));
      out.push_back(t);
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
    }
    out.push_back(t.as(type));
  }
  return out;
}

tensor draw_like(const tensor_spec& spec, std::uint32_t seed) {
  std::mt19937 rng{seed};
  tensor t{spec.dims, dtype::float32};
  for (auto& v : t.mutable_data<float>())
    v = 2 * unit(rng) - 1;
  return t.as(spec.type);
}

run_of_op::run_of_op(const tried_op& x, std::vector<tensor> inputs)
  : definition{x.definition}, in{std::move(inputs)} {
  std::vector<tensor_spec> specs;
  for (const auto& one : in) {
    specs.push_back(one.spec());
    wide |= one.type() == dtype::float64;
  }
  call.options = x.tested_case().options;
  call.in = in;
  const auto spec = definition->infer(specs, call.options);
  call.out = definition->is_reshape ? in[0].reshaped(spec.dims)
             : definition->view     ? definition->view(in[0], call.options)
                                    : tensor{spec};
  if (call.out.spec() != spec)
    throw std::logic_error("the shape rule says " + to_string(spec)
                           + ", but the result is "
                           + to_string(call.out.spec()));
  if (x.has_kernels())
    (wide ? definition->reference_forward : definition->forward[0])(call);
}

std::vector<tensor> run_of_op::backward(const tensor& grad_out, unsigned wanted,
                                        bool add) {
  std::vector<tensor> grads(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    if ((wanted >> i & 1) && !(definition->integers >> i & 1))
      grads[i] = tensor::full(in[i].dims(), add ? 1 : NAN, in[i].type());
  auto c = call;
  c.grad_out = grad_out.clone();
  c.grad_in = grads;
  c.accumulate = add ? ~0u : 0;
  (wide ? definition->reference_backward : definition->backward[0])(c);
  return grads;
}

std::vector<std::string> check_reference_gradient(const tried_op& x) {
  std::vector<std::string> failures;
  if (x.definition->is_reshape || !x.differentiable())
    return failures;
  const auto in = draw(x, dtype::float64);
  run_of_op run{x, in};
  const auto gy = draw_like(run.call.out.spec(), 77);
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

std::vector<std::string> check_kernels(const tried_op& x) {
  std::vector<std::string> failures;
  const auto bound = x.tested_case().bound;
  const auto compare = [&](const std::string& result, const tensor& got,
                           const tensor& want) {
    const auto error = error_of(got, want);
    if (!(error <= bound))
      failures.push_back(text("the float32 kernel's ", result,
                              " differs from the reference by ", error,
                              " of the largest magnitude, but the bound of the "
                              "case is ",
                              bound));
  };
  run_of_op narrow{x, draw(x, dtype::float32)};
  run_of_op wide{x, draw(x, dtype::float64)};
  compare("result", narrow.call.out, wide.call.out);
  if (x.definition->is_reshape || !x.differentiable())
    return failures;
  const auto gy = draw_like(narrow.call.out.spec(), 78);
  const auto got = narrow.backward(gy);
  const auto want = wide.backward(gy.as(dtype::float64));
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i])
      compare("gradient of input " + std::to_string(i), got[i], want[i]);
  return failures;
}

std::vector<std::string> check_accumulation(const tried_op& x) {
  std::vector<std::string> failures;
  if (x.definition->is_reshape || !x.differentiable())
    return failures;
  for (const auto type : {dtype::float32, dtype::float64}) {
    run_of_op run{x, draw(x, type)};
    const auto gy = draw_like(run.call.out.spec(), 79);
    const auto fresh = run.backward(gy), added = run.backward(gy, ~0u, true);
    for (std::size_t i = 0; i < fresh.size(); ++i)
      for (std::size_t at = 0; fresh[i] && at < fresh[i].size(); ++at) {
        const auto f = fresh[i].as(dtype::float64).data<double>()[at];
        const auto a = added[i].as(dtype::float64).data<double>()[at];
        if (!(std::abs(a - f - 1) <= 1e-5 * (std::abs(f) + 1))) {
          failures.push_back(
            text("the ", to_string(type), " gradient of input ", i, " is ", f,
                 " at element ", at, ", but added to 1 it gives ", a,
                 "; add to grad_in[", i, "] if accumulates(", i, ")"));
          break;
        }
        at += fresh[i].size() / 100; // Samples a large gradient.
      }
  }
  return failures;
}

std::vector<std::string> check_requested_gradients(const tried_op& x) {
  std::vector<std::string> failures;
  if (x.definition->is_reshape || !x.differentiable())
    return failures;
  run_of_op run{x, draw(x, dtype::float32)};
  const auto gy = draw_like(run.call.out.spec(), 80);
  const auto all_gradients = run.backward(gy);
  for (std::size_t i = 0; i < all_gradients.size(); ++i) {
    if (!all_gradients[i])
      continue;
    const auto one = run.backward(gy, 1u << i);
    if (!same_bits(one[i], all_gradients[i]))
      failures.push_back(text("the gradient of input ", i,
                              " has other bits if it is the only one that is "
                              "requested"));
  }
  return failures;
}

std::vector<std::string> check_displaced_inputs(const tried_op& x) {
  std::vector<std::string> failures;
  const auto in = draw(x, dtype::float32);
  std::vector<tensor> moved;
  for (const auto& t : in)
    moved.push_back(displaced(t));
  run_of_op a{x, in}, b{x, moved};
  if (!same_bits(a.call.out, b.call.out))
    failures.push_back("the result has other bits if the inputs begin 4 bytes "
                       "after a multiple of 64");
  if (x.definition->is_reshape || !x.differentiable())
    return failures;
  const auto gy = draw_like(a.call.out.spec(), 81);
  const auto ga = a.backward(gy), gb = b.backward(gy);
  for (std::size_t i = 0; i < ga.size(); ++i)
    if (ga[i] && !same_bits(ga[i], gb[i]))
      failures.push_back(text("the gradient of input ", i,
                              " has other bits if the inputs begin 4 bytes "
                              "after a multiple of 64"));
  return failures;
}

} // namespace troupe::detail
