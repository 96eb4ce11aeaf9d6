#include "troupe/tensors/ops/binary.hpp"

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
  const auto *const a = elements<T>(c.in[0]), *const b = elements<T>(c.in[1]);
  auto* const y = mutable_elements<T>(c.out[0]);
  const auto n = c.out[0].size();
  if (c.in[0].size() == n && c.in[1].size() == n)
    return run(c, n,
               [=] __device__(std::size_t i) { y[i] = F::f(a[i], b[i]); });
  const auto in_a = broadcast_map(c.in[0].dims(), c.out[0].dims()),
             in_b = broadcast_map(c.in[1].dims(), c.out[0].dims());
  run(c, n,
      [=] __device__(std::size_t i) { y[i] = F::f(a[in_a(i)], b[in_b(i)]); });
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
  const auto *const a = elements<T>(c.in[0]), *const b = elements<T>(c.in[1]),
                    *const g = elements<T>(c.grad_out[0]);
  auto* const to = mutable_elements<T>(c.grad_in[side]);
  const bool accumulates = c.accumulates(side);
  const auto& out = c.grad_out[0].dims();
  const auto in_a = broadcast_map(c.in[0].dims(), out),
             in_b = broadcast_map(c.in[1].dims(), out);
  const auto gradient = [=] __device__(std::size_t i) {
    const T x = a[in_a(i)], y = b[in_b(i)];
    return OfA ? F::da(x, y, g[i]) : F::db(x, y, g[i]);
  };
  const auto over = broadcast_axes(c.in[side].dims(), out);
  if (over == 0)
    return run(c, c.grad_out[0].size(), [=] __device__(std::size_t i) {
      put(to[i], gradient(i), accumulates);
    });
  reduce(
    c, reduction_plan{out, over},
    [=] __device__(std::size_t i) { return double(gradient(i)); },
    [=] __device__(std::size_t i, double sum) {
      put(to[i], static_cast<T>(sum), accumulates);
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
