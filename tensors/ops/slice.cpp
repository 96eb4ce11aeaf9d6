#include "troupe/tensors/ops/slice.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <array>

namespace troupe {

namespace {

using ops::slice_rows;

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto [begin, end] = options.as<slice_rows>();
  const auto& x = in[0].dims;
  if (!(x.rank() > 0 && 0 <= begin && begin <= end && end <= x.front()))
    ops::require(false,
                 ("a tensor with the rows [" + std::to_string(begin) + ", "
                  + std::to_string(end) + ")")
                   .c_str(),
                 in);
  return {x.with_extent(0, end - begin), in[0].type};
}

void rows(op_call& c) {
  const auto [begin, end] = c.options.as<slice_rows>();
  c.out.push_back(c.in[0].slice(begin, end));
}

void backward(op_call& c) {
  if (!c.wants(0))
    return;
  if (!c.accumulates(0))
    c.grad_in[0].set_zero();
  const auto [begin, end] = c.options.as<slice_rows>();
  auto rows = c.grad_in[0].slice(begin, end);
  add_in_place(rows, c.grad_out[0]);
}

const std::array cases{
  op_case{{{7}}, slice_rows{2, 5}},       op_case{{{4, 2}}, slice_rows{0, 4}},
  op_case{{{5, 3, 2}}, slice_rows{4, 5}}, op_case{{{4, 2}}, slice_rows{1, 1}},
  op_case{{{0, 2}}, slice_rows{0, 0}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, nullptr, backward},
  op_kernels{dtype::float64, nullptr, backward},
};

} // namespace

const op ops::slice{
  .name = "slice",
  .infer = infer,
  .kernels = float_kernels,
  .saves_inputs = false,
  .view = rows,
  .runs_on_any_device = true,
  .cases = cases,
  .formula = "some rows of x",
};

} // namespace troupe
