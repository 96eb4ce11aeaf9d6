#include "troupe/tensors/ops/binary.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/cuda/reduce.cuh"

namespace troupe::cuda {

namespace {

// The value f, and the gradients da and db of a and b given the gradient g of
// the value, as on the CPU.

struct add_function {
  template <class T>
  static __device__ T f(T a, T b) {
    return a + b;
  }
  template <class T>
  static __device__ T da(T, T, T g) {
    return g;
  }
  template <class T>
  static __device__ T db(T, T, T g) {
    return g;
  }
};

struct subtract_function {
  template <class T>
  static __device__ T f(T a, T b) {
    return a - b;
  }
  template <class T>
  static __device__ T da(T, T, T g) {
    return g;
  }
  template <class T>
  static __device__ T db(T, T, T g) {
    return -g;
  }
};

struct multiply_function {
  template <class T>
  static __device__ T f(T a, T b) {
    return a * b;
  }
  template <class T>
  static __device__ T da(T, T b, T g) {
    return g * b;
  }
  template <class T>
  static __device__ T db(T a, T, T g) {
    return g * a;
  }
};

struct divide_function {
  template <class T>
  static __device__ T f(T a, T b) {
    return a / b;
  }
  template <class T>
  static __device__ T da(T, T b, T g) {
    return g / b;
  }
  template <class T>
  static __device__ T db(T a, T b, T g) {
    return -g * a / (b * b);
  }
};

template <class F, class T>
void forward(op_call& c) {
  using value = number_of<T>;
  const auto& out = c.out[0].dims();
  transform(
    c, out.elements(), mutable_elements<T>(c.out[0]), false,
    [] __device__(value a, value b) { return F::f(a, b); },
    broadcast<T>(c.in[0], out), broadcast<T>(c.in[1], out));
}

/// Bit i is set if the tensor `x` is broadcast along axis i of `out`.
std::uint32_t broadcast_axes(const shape& x, const shape& out) {
  std::uint32_t bits = 0;
  const auto added = out.rank() - x.rank();
  for (std::size_t axis = 0; axis < out.rank(); ++axis)
    if (axis < added || (x[axis - added] == 1 && out[axis] != 1))
      bits |= 1u << axis;
  return bits;
}

template <class F, class T, bool OfA>
void backward_of(op_call& c) {
  constexpr std::size_t side = OfA ? 0 : 1;
  if (!c.wants(side))
    return;
  using value = number_of<T>;
  auto* const to = mutable_elements<T>(c.grad_in[side]);
  const bool accumulates = c.accumulates(side);
  const auto& out = c.grad_out[0].dims();
  const auto a = broadcast<T>(c.in[0], out), b = broadcast<T>(c.in[1], out);
  const auto g = whole<T>(c.grad_out[0]);
  const auto gradient = [] __device__(value x, value y, value slope) {
    return OfA ? F::da(x, y, slope) : F::db(x, y, slope);
  };
  const auto over = broadcast_axes(c.in[side].dims(), out);
  if (over == 0)
    return transform(c, out.elements(), to, accumulates, gradient, a, b, g);
  reduce(
    c, reduction_plan{out, over},
    [=] __device__(std::size_t i) {
      return double(gradient(a[i], b[i], g[i]));
    },
    [=] __device__(std::size_t i, double sum) {
      put(to[i], static_cast<value>(sum), accumulates);
    });
}

template <class F, class T>
void backward(op_call& c) {
  backward_of<F, T, true>(c);
  backward_of<F, T, false>(c);
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

std::span<const kernels_of_op> binary_kernels() {
  static const std::array list{
    kernels_of_op{&ops::add, rows<add_function>},
    kernels_of_op{&ops::subtract, rows<subtract_function>},
    kernels_of_op{&ops::multiply, rows<multiply_function>},
    kernels_of_op{&ops::divide, rows<divide_function>},
  };
  return list;
}

} // namespace troupe::cuda
