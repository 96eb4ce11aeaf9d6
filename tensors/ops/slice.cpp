#include "troupe/tensors/ops/slice.hpp"

#include "troupe/tensors/ops/check.hpp"

#include <algorithm>
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

template <class T>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto begin = c.options.as<slice_rows>().begin;
  const auto gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  if (!c.accumulates(0))
    std::ranges::fill(gx, T{0});
  if (gy.empty())
    return;
  const auto& dims = c.grad_in[0].dims();
  const auto row = dims.axes(1, dims.rank()).elements();
  const auto to = gx.subspan(static_cast<std::size_t>(begin) * row);
  for (std::size_t i = 0; i < gy.size(); ++i)
    to[i] += gy[i];
}

const std::array cases{
  op_case{{{7}}, slice_rows{2, 5}},       op_case{{{4, 2}}, slice_rows{0, 4}},
  op_case{{{5, 3, 2}}, slice_rows{4, 5}}, op_case{{{4, 2}}, slice_rows{1, 1}},
  op_case{{{0, 2}}, slice_rows{0, 0}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, nullptr, backward<float>},
  op_kernels{dtype::float64, nullptr, backward<double>},
};

} // namespace

const op ops::slice{
  .name = "slice",
  .infer = infer,
  .kernels = float_kernels,
  .saves_inputs = false,
  .view = rows,
  .cases = cases,
  .formula = "some rows of x",
};

} // namespace troupe
