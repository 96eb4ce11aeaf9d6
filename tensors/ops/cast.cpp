#include "troupe/tensors/ops/cast.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <array>

namespace troupe {

namespace {

tensor_spec infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto to = options.as<ops::cast_type>().type;
  ops::require(to == dtype::float32 || to == dtype::float64,
               "float32 or float64 to cast to", in);
  return {in[0].dims, to};
}

void forward(op_call& c) {
  c.out.copy_from(c.in[0].as(c.out.type()));
}

void backward(op_call& c) {
  if (c.wants(0))
    put_gradient(c, 0, c.grad_out.as(c.grad_in[0].type()));
}

// The cases cast only to float64: gradient checks use central differences,
// which are too inaccurate in float32.
const std::array cases{
  op_case{{{{}}}, ops::cast_type{dtype::float64}},
  op_case{{{{7, 5}}}, ops::cast_type{dtype::float64}},
  op_case{{{{0, 5}}}, ops::cast_type{dtype::float64}},
};

} // namespace

const op ops::cast{
  .name = "cast",
  .arity = 1,
  .infer = infer,
  .forward = {forward},
  .backward = {backward},
  .reference_forward = forward,
  .reference_backward = backward,
  .saves_inputs = false,
  .cases = cases,
  .formula = "x as float32 or float64",
};

} // namespace troupe
