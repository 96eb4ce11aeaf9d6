#include <cmath>
#include <iostream>
#include <troupe/troupe.hpp>

// A user's op outside the source tree: gelu, x * Phi(x), where Phi is the
// normal distribution function. The program checks the op, and a copy of it
// with a wrong derivative.

namespace {

using troupe::op_call;

constexpr double root_half = 0.70710678118654752; // 1 / sqrt(2)

template <class T>
T cumulative(T x) {
  return std::erfc(-x * T(root_half)) / 2;
}

template <class T>
void forward(op_call& c) {
  const auto x = c.in[0].data<T>();
  auto y = c.out[0].mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] * cumulative(x[i]);
}

/// @tparam Right If false, the derivative lacks the term x * phi(x).
template <class T, bool Right>
void backward(op_call& c) {
  const auto x = c.in[0].data<T>(), gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T density = std::exp(-x[i] * x[i] / 2) * T(0.3989422804014327);
    const T slope = cumulative(x[i]) + (Right ? x[i] * density : T(0));
    gx[i] = (c.accumulates(0) ? gx[i] : 0) + gy[i] * slope;
  }
}

const std::array cases{troupe::op_case{{{3, 5}}, {}, -3, 3}};

template <bool Right>
constexpr std::array kernels{
  troupe::op_kernels{troupe::dtype::float32, forward<float>,
                     backward<float, Right>},
  troupe::op_kernels{troupe::dtype::float64, forward<double>,
                     backward<double, Right>},
};

template <bool Right>
troupe::op gelu() {
  return {
    .name = "gelu",
    .infer = [](std::span<const troupe::tensor_spec> in,
                const troupe::op_options&) -> troupe::op_outputs {
      return in[0];
    },
    .kernels = kernels<Right>,
    .cases = cases,
  };
}

} // namespace

int main() {
  for (const auto& text : troupe::check_op(gelu<true>())) {
    std::cout << text << '\n';
    return 1;
  }
  const auto failures = troupe::check_op(gelu<false>());
  if (failures.empty())
    return 2;
  std::cout << "found: " << failures.front() << '\n';
  return failures.front().find("central differences") != std::string::npos ? 0
                                                                           : 3;
}
