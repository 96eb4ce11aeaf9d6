#include "troupe/tensors/ops/to_device.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"

#include <array>

namespace troupe {

namespace {

op_outputs same_spec(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

void copy(op_call& c) {
  c.out.push_back(c.in[0].to(c.options.as<ops::target_device>().on));
}

void backward(op_call& c) {
  if (c.wants(0))
    put_gradient(c, 0, c.grad_out[0].to(c.grad_in[0].device()));
}

const std::array cases{
  op_case{{{}}, ops::target_device{}},
  op_case{{{7, 5}}, ops::target_device{}},
  op_case{{{0, 5}}, ops::target_device{}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, nullptr, backward},
  op_kernels{dtype::float64, nullptr, backward},
  op_kernels{dtype::bfloat16, nullptr, backward},
};

} // namespace

const op ops::to_device{
  .name = "to_device",
  .infer = same_spec,
  .kernels = float_kernels,
  .saves_inputs = false,
  .view = copy,
  .runs_on_any_device = true,
  .cases = cases,
  .formula = "x, copied to another device",
};

} // namespace troupe
