#include "troupe/tensors/ops/clone.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"

#include <array>

namespace troupe {

namespace {

tensor_spec same_spec(std::span<const tensor_spec> in, const op_options&) {
  return in[0];
}

void forward(op_call& c) {
  c.out.copy_from(c.in[0]);
}

void backward(op_call& c) {
  if (c.wants(0))
    put_gradient(c, 0, c.grad_out);
}

const std::array cases{
  op_case{{{{}}}, {}},
  op_case{{{{7, 5}}}, {}},
  op_case{{{{0, 5}}}, {}},
};

} // namespace

const op ops::clone{
  .name = "clone",
  .arity = 1,
  .infer = same_spec,
  .forward = {forward},
  .backward = {backward},
  .reference_forward = forward,
  .reference_backward = backward,
  .saves_inputs = false,
  .cases = cases,
  .formula = "x, copied",
};

} // namespace troupe
