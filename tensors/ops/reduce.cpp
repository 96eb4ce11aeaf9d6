#include "troupe/tensors/ops/reduce.hpp"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

using ops::reduction;

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto [over, keep] = options.as<reduction>();
  const auto& x = in[0].dims;
  std::array<std::int64_t, shape::max_rank> extents{};
  std::size_t rank = 0;
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (const bool reduced = over >> axis & 1; !reduced || keep)
      extents[rank++] = reduced ? 1 : x[axis];
  return {shape{std::span{extents.data(), rank}}, in[0].type};
}

/// Calls `fn(index in x, index in the result)` for every element of x.
template <class F>
void each(const shape& x, std::uint32_t over, F fn) {
  std::array<std::size_t, shape::max_rank> strides{};
  std::size_t step = 1;
  for (auto axis = x.rank(); axis-- > 0;)
    if ((over >> axis & 1) == 0) {
      strides[axis] = step;
      step *= std::size_t(x[axis]);
    }
  std::array<std::int64_t, shape::max_rank> indices{};
  std::size_t result = 0;
  for (std::size_t from = 0, n = x.elements(); from < n; ++from) {
    fn(from, result);
    for (auto axis = x.rank(); axis-- > 0;) {
      result += strides[axis];
      if (++indices[axis] < x[axis])
        break;
      result -= strides[axis] * std::size_t(indices[axis]);
      indices[axis] = 0;
    }
  }
}

/// Returns the number by which each sum is divided.
double divisor(const op_call& c, const shape& out, bool mean) {
  return mean ? double(c.in[0].size()) / double(out.elements()) : 1;
}

template <class T, bool Mean>
void forward(op_call& c) {
  const auto over = c.options.as<reduction>().over;
  const auto x = c.in[0].data<T>();
  auto y = c.out[0].mutable_data<T>();
  pooled<double> sums(y.size(), 0.0);
  each(c.in[0].dims(), over, [&](auto from, auto to) { sums[to] += x[from]; });
  const auto by = divisor(c, c.out[0].dims(), Mean);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<T>(sums[i] / by);
}

template <class T, bool Mean>
void backward(op_call& c) {
  if (!c.wants(0))
    return;
  const auto over = c.options.as<reduction>().over;
  const auto gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  const auto by = static_cast<T>(divisor(c, c.grad_out[0].dims(), Mean));
  each(c.in[0].dims(), over, [&](auto from, auto to) {
    const T g = gy[to] / by;
    gx[from] = c.accumulates(0) ? gx[from] + g : g;
  });
}

const std::array cases{
  op_case{{{}}, reduction{}},
  op_case{{{7}}, reduction{1}},
  op_case{{{3, 5}}, reduction{1}},
  op_case{{{3, 5}}, reduction{2, true}},
  op_case{{{2, 3, 5, 7}}, reduction{0b0101}},
  op_case{{{2, 3, 5, 7}}, reduction{0b1111, true}},
  op_case{{{17, 129}}, reduction{3}},
  op_case{{{7, 16}}, reduction{1}},
  op_case{{{7, 16}}, reduction{2}},
};

template <bool Mean>
constexpr std::array kernels_of{
  op_kernels{dtype::float32, forward<float, Mean>, backward<float, Mean>},
  op_kernels{dtype::float64, forward<double, Mean>, backward<double, Mean>},
};

template <bool Mean>
op reduce(std::string_view name, std::string_view formula) {
  return {.name = name,
          .infer = infer,
          .kernels = kernels_of<Mean>,
          .cases = cases,
          .formula = formula};
}

reduction over_axes(const tensor& x, const axes& over, bool keep) {
  const auto rank = int(x.dims().rank());
  reduction out{over.size() == 0 ? (1u << rank) - 1 : 0, keep};
  for (const auto axis : over) {
    const auto at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank || (out.over >> at & 1) != 0)
      throw std::logic_error("reduction of " + to_string(x.spec())
                             + " over axis " + std::to_string(axis));
    out.over |= 1u << at;
  }
  return out;
}

} // namespace

void axes::assign(std::span<const int> list) {
  if (list.size() > list_.size())
    throw std::logic_error("a list of " + std::to_string(list.size())
                           + " axes; a tensor has at most "
                           + std::to_string(list_.size()));
  std::ranges::copy(list, list_.begin());
  size_ = list.size();
}

const op ops::reduce_sum = reduce<false>("reduce_sum", "sum of x over axes");
const op ops::reduce_mean = reduce<true>("reduce_mean", "mean of x over axes");

tensor reduce_sum(const tensor& x, const axes& over, bool keep) {
  return apply(ops::reduce_sum, {x}, over_axes(x, over, keep));
}

tensor reduce_mean(const tensor& x, const axes& over, bool keep) {
  return apply(ops::reduce_mean, {x}, over_axes(x, over, keep));
}

} // namespace troupe
