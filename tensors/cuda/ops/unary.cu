#include "troupe/tensors/ops/unary.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

#include <cmath>

namespace troupe::cuda {

namespace {

// f(x) and its derivative df(x, y), with y = f(x), as on the CPU.

struct relu_function {
  template <class T>
  static __device__ T f(T x) {
    return x > 0 || x != x ? x : T{0};
  }
  template <class T>
  static __device__ T df(T x, T) {
    return x > 0 ? T{1} : T{0};
  }
};

struct sigmoid_function {
  template <class T>
  static __device__ T f(T x) {
    return 1 / (1 + std::exp(-x));
  }
  template <class T>
  static __device__ T df(T, T y) {
    return y * (1 - y);
  }
};

struct tanh_function {
  template <class T>
  static __device__ T f(T x) {
    return std::tanh(x);
  }
  template <class T>
  static __device__ T df(T, T y) {
    return 1 - y * y;
  }
};

struct exp_function {
  template <class T>
  static __device__ T f(T x) {
    return std::exp(x);
  }
  template <class T>
  static __device__ T df(T, T y) {
    return y;
  }
};

struct log_function {
  template <class T>
  static __device__ T f(T x) {
    return std::log(x);
  }
  template <class T>
  static __device__ T df(T x, T) {
    return 1 / x;
  }
};

struct sqrt_function {
  template <class T>
  static __device__ T f(T x) {
    return std::sqrt(x);
  }
  template <class T>
  static __device__ T df(T, T y) {
    return T{0.5} / y;
  }
};

struct square_function {
  template <class T>
  static __device__ T f(T x) {
    return x * x;
  }
  template <class T>
  static __device__ T df(T x, T) {
    return 2 * x;
  }
};

struct negate_function {
  template <class T>
  static __device__ T f(T x) {
    return -x;
  }
  template <class T>
  static __device__ T df(T, T) {
    return -1;
  }
};

template <class F, class T>
void forward(op_call& c) {
  using value = number_of<T>;
  transform(
    c, c.in[0].size(), mutable_elements<T>(c.out[0]), false,
    [] __device__(value x) { return F::f(x); }, whole<T>(c.in[0]));
}

template <class F, class T>
void backward(op_call& c) {
  using value = number_of<T>;
  if (!c.wants(0))
    return;
  transform(
    c, c.in[0].size(), mutable_elements<T>(c.grad_in[0]), c.accumulates(0),
    [] __device__(value x, value y, value gy) { return F::df(x, y) * gy; },
    whole<T>(c.in[0]), whole<T>(c.out[0]), whole<T>(c.grad_out[0]));
}

template <class F>
constexpr std::array rows{
  op_kernels{dtype::float32, forward<F, float>, backward<F, float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<F, double>, backward<F, double>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<F, bfloat16>, backward<F, bfloat16>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> unary_kernels() {
  static const std::array list{
    kernels_of_op{&ops::relu, rows<relu_function>},
    kernels_of_op{&ops::sigmoid, rows<sigmoid_function>},
    kernels_of_op{&ops::tanh, rows<tanh_function>},
    kernels_of_op{&ops::exp, rows<exp_function>},
    kernels_of_op{&ops::log, rows<log_function>},
    kernels_of_op{&ops::sqrt, rows<sqrt_function>},
    kernels_of_op{&ops::square, rows<square_function>},
    kernels_of_op{&ops::negate, rows<negate_function>},
  };
  return list;
}

} // namespace troupe::cuda
