#include "troupe/tensors/ops/concat.hpp"

#include "troupe/tensors/ops/check.hpp"

#include <array>
#include <cstring>

namespace troupe {

namespace {

using ops::joined_axis;

std::size_t axis_of(const op_options& options) {
  return options.as<joined_axis>().axis;
}

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto axis = axis_of(options);
  const auto& first = in[0].dims;
  std::int64_t extent = 0;
  for (const auto& x : in) {
    const bool fits = x.dims.rank() > axis && x.dims.rank() == first.rank()
                      && x.dims.with_extent(axis, first[axis]) == first;
    ops::require(fits, "concat tensors that differ in one axis only", in);
    extent += x.dims[axis];
  }
  return {first.with_extent(axis, extent), in[0].type};
}

/// Calls `fn` for each part of the inputs that is contiguous in the result. The
/// arguments are the input i, the first element in it, the first element in the
/// result, and the number of elements.
template <class F>
void each_part(const op_call& c, const shape& out, F fn) {
  const auto axis = axis_of(c.options);
  const auto blocks = out.axes(0, axis).elements();
  const auto row = out.axes(axis + 1, out.rank()).elements();
  std::size_t to = 0;
  for (std::size_t block = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      const auto count = std::size_t(c.in[i].dims()[axis]) * row;
      fn(i, block * count, to, count);
      to += count;
    }
}

void forward(op_call& c) {
  const auto bytes = size_of(c.out[0].type());
  auto* const out = c.out[0].raw();
  each_part(c, c.out[0].dims(), [&](auto i, auto from, auto to, auto count) {
    if (count > 0)
      std::memcpy(out + to * bytes, c.in[i].raw() + from * bytes,
                  count * bytes);
  });
}

template <class T>
void backward(op_call& c) {
  const auto g = c.grad_out[0].data<T>();
  each_part(
    c, c.grad_out[0].dims(), [&](auto i, auto from, auto to, auto count) {
      if (!c.wants(i))
        return;
      auto gradient = c.grad_in[i].template mutable_data<T>();
      const bool adds = c.accumulates(i);
      for (std::size_t k = 0; k < count; ++k)
        gradient[from + k] = adds ? gradient[from + k] + g[to + k] : g[to + k];
    });
}

constexpr std::array kernels{
  op_kernels{dtype::float32, forward, backward<float>},
  op_kernels{dtype::float64, forward, backward<double>},
  op_kernels{dtype::int32, forward},
  op_kernels{dtype::int64, forward},
  op_kernels{dtype::uint8, forward},
  op_kernels{dtype::boolean, forward},
};

const std::array cases{
  op_case{{{3}}, joined_axis{0}},
  op_case{{{2, 3}, {4, 3}, {1, 3}}, joined_axis{0}},
  op_case{{{2, 3}, {2, 5}}, joined_axis{1}},
  op_case{{{2, 1, 3}, {2, 2, 3}, {2, 4, 3}, {2, 0, 3}, {2, 1, 3}},
          joined_axis{1}},
  op_case{{{0, 2}, {0, 3}}, joined_axis{1}},
  op_case{{{17, 33, 2}, {17, 33, 1}}, joined_axis{2}},
  op_case{{{3, 8}, {3, 16}}, joined_axis{1}},
};

} // namespace

const op ops::concat{
  .name = "concat",
  .repeats_last_input = true,
  .infer = infer,
  .kernels = kernels,
  .cases = cases,
  .formula = "all x, joined along an axis",
};

tensor concat(std::span<const tensor> list, int axis) {
  if (list.empty())
    throw std::logic_error("concat of no tensors");
  const auto rank = static_cast<int>(list[0].dims().rank());
  const auto index = axis < 0 ? axis + rank : axis;
  if (index < 0 || index >= rank)
    throw std::logic_error("concat along axis " + std::to_string(axis) + " of "
                           + to_string(list[0].spec()));
  return apply(ops::concat, list, joined_axis{static_cast<std::size_t>(index)});
}

tensor concat(std::initializer_list<tensor> list, int axis) {
  return concat(std::span{list.begin(), list.size()}, axis);
}

} // namespace troupe
