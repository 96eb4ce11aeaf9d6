#include "troupe/tensors/ops/dropout.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/random.hpp"

namespace troupe {

namespace {

using ops::dropped;

op_outputs same_spec(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

template <class T>
void forward(op_call& c) {
  const auto options = c.options.as<dropped>();
  c.saved.push_back(tensor{c.out[0].dims()});
  auto mask = c.saved[0].mutable_data<float>();
  const auto x = c.in[0].data<T>();
  auto y = c.out[0].mutable_data<T>();
  for_elements(y.size(), [&](std::size_t begin, std::size_t end) {
    fill_bernoulli(mask.subspan(begin, end - begin), 1.0 - double(options.rate),
                   1 / (1 - options.rate), options.key, begin);
    for (auto i = begin; i < end; ++i)
      y[i] = x[i] * mask[i];
  });
}

template <class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto mask = c.saved[0].data<float>();
  const auto gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  const bool accumulates = c.accumulates(0);
  for_elements(gx.size(), [&](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const T g = gy[i] * mask[i];
      gx[i] = accumulates ? gx[i] + g : g;
    }
  });
}

const std::array cases{
  op_case{{{1}}, dropped{0.5f, {1, 2, 3, 4}}},
  op_case{{{7, 5}}, dropped{0.25f, {1, 2, 3, 5}}},
  op_case{{{3, 17, 11}}, dropped{0.9f, {1, 2, 3, 6}}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, forward<float>, backward<float>},
  op_kernels{dtype::float64, forward<double>, backward<double>},
};

} // namespace

const op ops::dropout{
  .name = "dropout",
  .infer = same_spec,
  .kernels = float_kernels,
  .saves_inputs = false,
  .cases = cases,
  .formula = "x * mask / (1 - rate)",
};

tensor dropout(const tensor& x, float rate, bool training) {
  if (!(rate >= 0 && rate < 1))
    throw std::logic_error("dropout with a rate of " + std::to_string(rate));
  if (!training || rate == 0)
    return x;
  auto& current = current_context();
  const auto key = current.random;
  ++current.random.op;
  return apply(ops::dropout, {x}, dropped{rate, key});
}

} // namespace troupe
