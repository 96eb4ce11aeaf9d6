#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"

#include "troupe/tensors/cuda/elementwise.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

#include <cmath>

namespace troupe::cuda {

namespace {

// The derivative is kept as numbers: for bfloat16 it is not rounded.

template <class T>
void forward(op_call& c) {
  using value = number_of<T>;
  c.saved.push_back(tensor{{c.in[0].dims(), dtype_of<value>}, c.on});
  const auto x = whole<T>(c.in[0]), z = whole<T>(c.in[1]);
  auto* const losses = mutable_elements<T>(c.out[0]);
  auto* const gradient = mutable_elements<value>(c.saved[0]);
  run(c, c.in[0].size(), [=] __device__(std::size_t i) {
    const value score = x[i], target = z[i];
    const value e = std::exp(score < 0 ? score : -score);
    put(losses[i],
        (score <= 0 ? value{0} : score) - score * target + std::log1p(e),
        false);
    put(gradient[i], (score < 0 ? e : value{1}) / (1 + e) - target, false);
  });
}

template <class T>
void backward(op_call& c) {
  using value = number_of<T>;
  if (!c.wants(0))
    return;
  transform(
    c, c.saved[0].size(), mutable_elements<T>(c.grad_in[0]), c.accumulates(0),
    [] __device__(value slope, value gy) { return slope * gy; },
    whole<value>(c.saved[0]), whole<T>(c.grad_out[0]));
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<float>, backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<double>, backward<double>,
             device_kind::cuda},
  op_kernels{dtype::bfloat16, forward<bfloat16>, backward<bfloat16>,
             device_kind::cuda},
};

} // namespace

std::span<const kernels_of_op> sigmoid_cross_entropy_kernels() {
  static const std::array list{
    kernels_of_op{&ops::sigmoid_cross_entropy, rows},
  };
  return list;
}

} // namespace troupe::cuda
