#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"

#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/cuda/ops/kernels.hpp"

#include <cmath>

namespace troupe::cuda {

namespace {

template <class T>
void forward(op_call& c) {
  c.saved.push_back(tensor{c.in[0].spec(), c.on});
  const auto *const x = elements<T>(c.in[0]), *const z = elements<T>(c.in[1]);
  auto *const losses = mutable_elements<T>(c.out[0]), *const gradient =
                                                        mutable_elements<T>(
                                                          c.saved[0]);
  run(c, c.in[0].size(), [=] __device__(std::size_t i) {
    const T score = x[i], target = z[i];
    const T e = std::exp(score < 0 ? score : -score);
    losses[i] = (score <= 0 ? T{0} : score) - score * target + std::log1p(e);
    gradient[i] = (score < 0 ? e : T{1}) / (1 + e) - target;
  });
}

template <class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto *const saved = elements<T>(c.saved[0]), *const gy = elements<T>(
                                                       c.grad_out[0]);
  auto* const gx = mutable_elements<T>(c.grad_in[0]);
  const bool accumulates = c.accumulates(0);
  run(c, c.saved[0].size(), [=] __device__(std::size_t i) {
    put(gx[i], saved[i] * gy[i], accumulates);
  });
}

constexpr std::array rows{
  op_kernels{dtype::float32, forward<float>, backward<float>,
             device_kind::cuda},
  op_kernels{dtype::float64, forward<double>, backward<double>,
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
