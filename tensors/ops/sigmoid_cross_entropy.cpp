#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

op_outputs infer(std::span<const tensor_spec> in, const op_options&) {
  ops::require(in[0].dims == in[1].dims,
               "sigmoid_cross_entropy of logits and targets of one shape", in);
  return in[0];
}

void forward(op_call& c) {
  c.saved.push_back(tensor{c.in[0].spec()});
  const auto x = c.in[0].data<float>(), z = c.in[1].data<float>();
  auto losses = c.out[0].mutable_data<float>(),
       gradient = c.saved[0].mutable_data<float>();
  for_elements(x.size(), [&](std::size_t begin, std::size_t end) {
    kernels().sigmoid_cross_entropy(losses.data() + begin,
                                    gradient.data() + begin, x.data() + begin,
                                    z.data() + begin, end - begin);
  });
}

void reference_forward(op_call& c) {
  c.saved.push_back(tensor{c.in[0].spec()});
  const auto x = c.in[0].data<double>(), z = c.in[1].data<double>();
  auto losses = c.out[0].mutable_data<double>(),
       gradient = c.saved[0].mutable_data<double>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto e = std::exp(-std::abs(x[i]));
    losses[i] = std::max(x[i], 0.0) - x[i] * z[i] + std::log1p(e);
    gradient[i] = (x[i] < 0 ? e : 1) / (1 + e) - z[i];
  }
}

template <class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto saved = c.saved[0].data<T>(), gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  const bool accumulates = c.accumulates(0);
  for_elements(saved.size(), [&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const T g = saved[i] * gy[i];
      gx[i] = accumulates ? gx[i] + g : g;
    }
  });
}

const std::array cases{
  op_case{{{}, {}}, {}, -3, 3},
  op_case{{{1}, {1}}, {}, -3, 3},
  op_case{{{7, 5}, {7, 5}}, {}, 0, 1},
  op_case{{{0, 5}, {0, 5}}, {}, -3, 3},
  op_case{{{3, 17, 11}, {3, 17, 11}}, {}, -30, 30},
};

constexpr std::array inputs{op_input{}, op_input{.differentiable = false}};

constexpr std::array kernels_by_dtype{
  op_kernels{dtype::float32, forward, backward<float>},
  op_kernels{dtype::float64, reference_forward, backward<double>},
};

} // namespace

const op ops::sigmoid_cross_entropy{
  .name = "sigmoid_cross_entropy",
  .inputs = inputs,
  .infer = infer,
  .kernels = kernels_by_dtype,
  .saves_inputs = false,
  .cases = cases,
  .formula = "log(1 + exp(x)) - x z",
};

tensor sigmoid_cross_entropy(const tensor& logits, const tensor& targets) {
  return apply(ops::sigmoid_cross_entropy, {logits, targets});
}

} // namespace troupe
