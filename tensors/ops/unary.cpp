#include "troupe/tensors/ops/unary.hpp"

#include "troupe/tensors/op_threads.hpp"

#include <cmath>

namespace troupe {

namespace {

// Each struct defines the value f(x) of an op and its derivative df(x, y), with
// y = f(x). To add an op, add a struct here, a constant below and an entry in
// ops/all.cpp.

struct relu_scalar {
  template <class T>
  static T f(T x) {
    return x > 0 || x != x ? x : T{0};
  }
  template <class T>
  static T df(T x, T) {
    return x > 0 ? T{1} : T{0};
  }
};

struct sigmoid_scalar {
  template <class T>
  static T f(T x) {
    return 1 / (1 + std::exp(-x));
  }
  template <class T>
  static T df(T, T y) {
    return y * (1 - y);
  }
};

struct tanh_scalar {
  template <class T>
  static T f(T x) {
    return std::tanh(x);
  }
  template <class T>
  static T df(T, T y) {
    return 1 - y * y;
  }
};

struct exp_scalar {
  template <class T>
  static T f(T x) {
    return std::exp(x);
  }
  template <class T>
  static T df(T, T y) {
    return y;
  }
};

struct log_scalar {
  template <class T>
  static T f(T x) {
    return std::log(x);
  }
  template <class T>
  static T df(T x, T) {
    return 1 / x;
  }
};

struct sqrt_scalar {
  template <class T>
  static T f(T x) {
    return std::sqrt(x);
  }
  template <class T>
  static T df(T, T y) {
    return T{0.5} / y;
  }
};

struct square_scalar {
  template <class T>
  static T f(T x) {
    return x * x;
  }
  template <class T>
  static T df(T x, T) {
    return 2 * x;
  }
};

struct negate_scalar {
  template <class T>
  static T f(T x) {
    return -x;
  }
  template <class T>
  static T df(T, T) {
    return -1;
  }
};

op_outputs same_spec(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

template <class Op, class T>
void forward(op_call& c) {
  const auto x = c.in[0].data<T>();
  auto y = c.out[0].mutable_data<T>();
  for_elements(x.size(), [&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i)
      y[i] = Op::f(x[i]);
  });
}

template <class Op, class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto x = c.in[0].data<T>(), y = c.out[0].data<T>(),
             gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  const bool accumulates = c.accumulates(0);
  for_elements(x.size(), [&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const T g = Op::df(x[i], y[i]) * gy[i];
      gx[i] = accumulates ? gx[i] + g : g;
    }
  });
}

const std::array cases{
  op_case{{{}}, {}, -3, 3},          op_case{{{1}}, {}, -3, 3},
  op_case{{{7, 5}}, {}, -3, 3},      op_case{{{0, 5}}, {}, -3, 3},
  op_case{{{3, 17, 11}}, {}, -3, 3},
};

const std::array positive_cases{
  op_case{{{1}}, {}, 0.1f, 3},
  op_case{{{7, 5}}, {}, 0.1f, 3},
  op_case{{{3, 17, 11}}, {}, 0.1f, 30},
};

/// The gradient of an op that reads the result has also the error of the
/// result, which is rounded to bfloat16.
template <std::size_t n>
std::array<op_case, n> reading_results(std::array<op_case, n> list,
                                       double bfloat16_rounding) {
  for (auto& x : list)
    x.bfloat16_rounding = bfloat16_rounding;
  return list;
}

const auto cases_of_results = reading_results(cases, 0x1p-7);
/// The derivatives are differences, such as 1 - y^2.
const auto cases_of_differences = reading_results(cases, 0x1p-6);
const auto positive_cases_of_results = reading_results(positive_cases, 0x1p-7);

constexpr std::array at_zero{0.0f};

template <class Op>
constexpr std::array kernels_of{
  op_kernels{dtype::float32, forward<Op, float>, backward<Op, float>},
  op_kernels{dtype::float64, forward<Op, double>, backward<Op, double>},
};

template <class Op>
op unary(std::string_view name, std::string_view formula,
         std::span<const op_case> tried = cases,
         std::span<const float> nondifferentiable_points = {}) {
  return {.name = name,
          .infer = same_spec,
          .kernels = kernels_of<Op>,
          .saves_outputs = true,
          .cases = tried,
          .nondifferentiable_points = nondifferentiable_points,
          .formula = formula};
}

} // namespace

const op ops::relu = unary<relu_scalar>("relu", "max(x, 0)", cases, at_zero);
const op ops::sigmoid =
  unary<sigmoid_scalar>("sigmoid", "1 / (1 + exp(-x))", cases_of_differences);
const op ops::tanh =
  unary<tanh_scalar>("tanh", "tanh(x)", cases_of_differences);
const op ops::exp = unary<exp_scalar>("exp", "exp(x)", cases_of_results);
const op ops::log = unary<log_scalar>("log", "log(x)", positive_cases);
const op ops::sqrt =
  unary<sqrt_scalar>("sqrt", "sqrt(x)", positive_cases_of_results);
const op ops::square = unary<square_scalar>("square", "x^2");
const op ops::negate = unary<negate_scalar>("negate", "-x");

tensor relu(const tensor& x) {
  return apply(ops::relu, {x});
}
tensor sigmoid(const tensor& x) {
  return apply(ops::sigmoid, {x});
}
tensor tanh(const tensor& x) {
  return apply(ops::tanh, {x});
}
tensor exp(const tensor& x) {
  return apply(ops::exp, {x});
}
tensor log(const tensor& x) {
  return apply(ops::log, {x});
}
tensor sqrt(const tensor& x) {
  return apply(ops::sqrt, {x});
}
tensor square(const tensor& x) {
  return apply(ops::square, {x});
}
tensor negate(const tensor& x) {
  return apply(ops::negate, {x});
}

} // namespace troupe
