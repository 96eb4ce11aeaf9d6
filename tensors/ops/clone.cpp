#include "troupe/tensors/ops/clone.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"

#include <array>

namespace troupe {

namespace {

op_outputs same_spec(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

void forward(op_call& c) {
  c.out[0].copy_from(c.in[0]);
}

void backward(op_call& c) {
  if (c.wants(0))
    put_gradient(c, 0, c.grad_out[0]);
}

const std::array cases{
  op_case{{{}}, {}},
  op_case{{{7, 5}}, {}},
  op_case{{{0, 5}}, {}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, forward, backward},
  op_kernels{dtype::float64, forward, backward},
};

} // namespace

const op ops::clone{
  .name = "clone",
  .infer = same_spec,
  .kernels = float_kernels,
  .saves_inputs = false,
  .runs_on_any_device = true,
  .cases = cases,
  .formula = "x, copied",
};

} // namespace troupe
