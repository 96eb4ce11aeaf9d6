#include "troupe/tensors/ops/cast.hpp"

#include "troupe/tensors/convert_elements.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <array>

namespace troupe {

namespace {

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto to = options.as<ops::cast_type>().type;
  ops::require(is_float(to), "a float dtype to cast to", in);
  return {in[0].dims, to};
}

void forward(op_call& c) {
  convert_elements(c.in[0], c.out[0]);
}

void backward(op_call& c) {
  if (!c.wants(0))
    return;
  auto& into = c.grad_in[0];
  if (!c.accumulates(0))
    return convert_elements(c.grad_out[0], into);
  // A sum in bfloat16 is rounded once.
  const auto type =
    into.type() == dtype::bfloat16 ? dtype::float32 : into.type();
  auto sum = into.as(type);
  add_in_place(sum, c.grad_out[0].as(type));
  convert_elements(sum, into);
}

// The cases cast only to float64: gradient checks use central differences,
// which are too inaccurate in float32.
const std::array cases{
  op_case{{{}}, ops::cast_type{dtype::float64}},
  op_case{{{7, 5}}, ops::cast_type{dtype::float64}},
  op_case{{{0, 5}}, ops::cast_type{dtype::float64}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, forward, backward},
  op_kernels{dtype::float64, forward, backward},
  op_kernels{dtype::bfloat16, forward, backward},
};

} // namespace

const op ops::cast{
  .name = "cast",
  .infer = infer,
  .kernels = float_kernels,
  .saves_inputs = false,
  .runs_on_any_device = true,
  .cases = cases,
  .formula = "x as another float dtype",
};

} // namespace troupe
