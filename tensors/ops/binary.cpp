#include "troupe/tensors/ops/binary.hpp"

#include <Eigen/Core>
#include <algorithm>

namespace troupe {

namespace {

// Definitions of the ops for scalars and Eigen arrays. `f` is the value; `da`
// and `db` are the gradients of a and b, given the gradient g of the value.

struct add_definition {
  static auto f(const auto& a, const auto& b) { return a + b; }
  static auto da(auto, auto, auto g) { return g; }
  static auto db(auto, auto, auto g) { return g; }
};

struct subtract_definition {
  static auto f(const auto& a, const auto& b) { return a - b; }
  static auto da(auto, auto, auto g) { return g; }
  static auto db(auto, auto, auto g) { return -g; }
};

struct multiply_definition {
  static auto f(const auto& a, const auto& b) { return a * b; }
  static auto da(auto, auto b, auto g) { return g * b; }
  static auto db(auto a, auto, auto g) { return g * a; }
};

struct divide_definition {
  static auto f(const auto& a, const auto& b) { return a / b; }
  static auto da(auto, auto b, auto g) { return g / b; }
  static auto db(auto a, auto b, auto g) { return -g * a / (b * b); }
};

op_outputs infer(std::span<const tensor_spec> in, const op_options&) {
  return {broadcast(in[0].dims, in[1].dims), in[0].type};
}

/// Returns the strides with which row-major `x` is read as if it had the shape
/// `target`. They are 0 along broadcast axes.
std::array<std::size_t, shape::max_rank> strides(const shape& x,
                                                 const shape& target) {
  std::array<std::size_t, shape::max_rank> out{};
  std::size_t step = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const auto axis = x.rank() - 1 - i;
    out[target.rank() - 1 - i] = x[axis] == 1 ? 0 : step;
    step *= std::size_t(x[axis]);
  }
  return out;
}

/// Calls `fn(index in a, index in b, index in the result)` for every element.
template <class F>
void each(const shape& a, const shape& b, const shape& out, F fn) {
  const auto sa = strides(a, out), sb = strides(b, out);
  std::array<std::int64_t, shape::max_rank> indices{};
  std::size_t i = 0, j = 0;
  for (std::size_t k = 0, n = out.elements(); k < n; ++k) {
    fn(i, j, k);
    for (auto axis = out.rank(); axis-- > 0;) {
      i += sa[axis], j += sb[axis];
      if (++indices[axis] < out[axis])
        break;
      i -= sa[axis] * std::size_t(indices[axis]);
      j -= sb[axis] * std::size_t(indices[axis]);
      indices[axis] = 0;
    }
  }
}

template <class Op, class T>
void forward(op_call& c) {
  const auto a = c.in[0].data<T>(), b = c.in[1].data<T>();
  auto y = c.out[0].mutable_data<T>();
  using array = Eigen::Array<T, Eigen::Dynamic, 1>;
  using in = Eigen::Map<const array>;
  const auto n = Eigen::Index(y.size());
  Eigen::Map<array> to{y.data(), n};
  if (a.size() == y.size() && b.size() == y.size())
    to = Op::f(in{a.data(), n}, in{b.data(), n});
  else
    each(c.in[0].dims(), c.in[1].dims(), c.out[0].dims(),
         [&](auto i, auto j, auto k) { y[k] = Op::f(a[i], b[j]); });
}

template <class Op, class T>
void backward(op_call& c) {
  const auto a = c.in[0].data<T>(), b = c.in[1].data<T>(),
             g = c.grad_out[0].data<T>();
  for (std::size_t side = 0; side < 2; ++side) {
    if (!c.wants(side))
      continue;
    auto gradient = c.grad_in[side].template mutable_data<T>();
    if (!c.accumulates(side))
      std::ranges::fill(gradient, T{0});
    each(c.in[0].dims(), c.in[1].dims(), c.grad_out[0].dims(),
         [&](auto i, auto j, auto k) {
           gradient[side == 0 ? i : j] +=
             side == 0 ? Op::da(a[i], b[j], g[k]) : Op::db(a[i], b[j], g[k]);
         });
  }
}

const std::array cases{
  op_case{{{}, {}}, {}, 0.5f, 3},
  op_case{{{7}, {7}}, {}, 0.5f, 3},
  op_case{{{3, 5}, {5}}, {}, 0.5f, 3},
  op_case{{{5}, {3, 5}}, {}, 0.5f, 3},
  op_case{{{3, 1}, {1, 5}}, {}, 0.5f, 3},
  op_case{{{2, 3, 1, 7}, {3, 5, 1}}, {}, 0.5f, 3},
  op_case{{{0, 3}, {3}}, {}, 0.5f, 3},
  op_case{{{17, 33}, {}}, {}, 0.5f, 3},
  // Kernels of a device that load several elements at once.
  op_case{{{6, 16}, {16}}, {}, 0.5f, 3},
  op_case{{{3, 1, 16}, {5, 1}}, {}, 0.5f, 3},
};

template <class Op>
constexpr std::array kernels_of{
  op_kernels{dtype::float32, forward<Op, float>, backward<Op, float>},
  op_kernels{dtype::float64, forward<Op, double>, backward<Op, double>},
};

template <class Op>
op binary(std::string_view name, std::string_view formula) {
  return {.name = name,
          .inputs = two_inputs,
          .infer = infer,
          .kernels = kernels_of<Op>,
          .cases = cases,
          .formula = formula};
}

tensor scalar_like(const tensor& a, double b) {
  return tensor::full({}, b, a.type(), a.device());
}

} // namespace

const op ops::add = binary<add_definition>("add", "a + b");
const op ops::subtract = binary<subtract_definition>("subtract", "a - b");
const op ops::multiply = binary<multiply_definition>("multiply", "a * b");
const op ops::divide = binary<divide_definition>("divide", "a / b");

tensor add(const tensor& a, const tensor& b) {
  return apply(ops::add, {a, b});
}
tensor subtract(const tensor& a, const tensor& b) {
  return apply(ops::subtract, {a, b});
}
tensor multiply(const tensor& a, const tensor& b) {
  return apply(ops::multiply, {a, b});
}
tensor divide(const tensor& a, const tensor& b) {
  return apply(ops::divide, {a, b});
}

tensor operator*(const tensor& a, double b) {
  return multiply(a, scalar_like(a, b));
}
tensor operator/(const tensor& a, double b) {
  return divide(a, scalar_like(a, b));
}
tensor operator+(const tensor& a, double b) {
  return add(a, scalar_like(a, b));
}
tensor operator-(const tensor& a, double b) {
  return subtract(a, scalar_like(a, b));
}
tensor operator*(double a, const tensor& b) {
  return multiply(scalar_like(b, a), b);
}
tensor operator/(double a, const tensor& b) {
  return divide(scalar_like(b, a), b);
}
tensor operator+(double a, const tensor& b) {
  return add(scalar_like(b, a), b);
}
tensor operator-(double a, const tensor& b) {
  return subtract(scalar_like(b, a), b);
}
tensor operator-(const tensor& a) {
  return multiply(a, scalar_like(a, -1));
}

} // namespace troupe
