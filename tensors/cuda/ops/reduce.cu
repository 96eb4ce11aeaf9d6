#include "troupe/tensors/cuda/reduce.cuh"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/ops/reduce.hpp"

namespace troupe::cuda {

namespace {

using ops::reduction;

/// Returns the number by which each sum is divided.
double divisor(const shape& x, const shape& out, bool mean) {
  return mean ? double(x.elements()) / double(out.elements()) : 1;
}

template <class T, bool Mean>
void forward(op_call& c) {
  const auto x = whole<T>(c.in[0]);
  auto* const y = mutable_elements<T>(c.out[0]);
  const auto by = divisor(c.in[0].dims(), c.out[0].dims(), Mean);
  reduce(
    c, reduction_plan{c.in[0].dims(), c.options.as<reduction>().over},
    [=] __device__(std::size_t i) { return double(x[i]); },
    [=] __device__(std::size_t i, double sum) {
      put(y[i], static_cast<number_of<T>>(sum / by), false);
    });
}

template <class T, bool Mean>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto& x = c.in[0].dims();
  const auto over = c.options.as<reduction>().over;
  index_map results; // from an element to its result
  {
    std::size_t strides[shape::max_rank] = {};
    std::size_t step = 1;
    for (auto axis = x.rank(); axis-- > 0;)
      if ((over >> axis & 1) == 0) {
        strides[axis] = step;
        step *= std::size_t(x[axis]);
      }
    for (std::size_t axis = 0; axis < x.rank(); ++axis)
      results.add(x[axis], strides[axis]);
  }
  using value = number_of<T>;
  const auto by = static_cast<value>(divisor(x, c.grad_out[0].dims(), Mean));
  transform(
    c, x.elements(), mutable_elements<T>(c.grad_in[0]), c.accumulates(0),
    [=] __device__(value gy) { return gy / by; },
    operand<T>{elements<T>(c.grad_out[0]), over == 0, results});
}

template <bool Mean>
constexpr std::array rows{
  op_kernels{dtype::float32, forward<float, Mean>, backward<float, Mean>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<double, Mean>, backward<double, Mean>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<bfloat16, Mean>, backward<bfloat16, Mean>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> reduce_kernels() {
  static const std::array list{
    kernels_of_op{&ops::reduce_sum, rows<false>},
    kernels_of_op{&ops::reduce_mean, rows<true>},
  };
  return list;
}

} // namespace troupe::cuda
