#include "troupe/tensors/ops/max_pool2d.hpp"

#include "troupe/tensors/ops/check.hpp"
#include "troupe/tensors/ops/geometry.hpp"
#include "troupe/tensors/ops/pooling.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

pool_window ops::geometry(const shape& x, const pool_options& o) {
  const auto rows = ops::fit_window(x[1], o.window_h, o.stride_h, o.pad);
  const auto columns = ops::fit_window(x[2], o.window_w, o.stride_w, o.pad);
  const auto size = [](std::int64_t v) { return std::size_t(v); };
  return {.count = size(x[0]),
          .height = size(x[1]),
          .width = size(x[2]),
          .channels = size(x[3]),
          .out_height = size(rows.out),
          .out_width = size(columns.out),
          .window_height = size(o.window_h),
          .window_width = size(o.window_w),
          .stride_height = size(o.stride_h),
          .stride_width = size(o.stride_w),
          .top = size(rows.before),
          .left = size(columns.before)};
}

namespace {

pool_window geometry(const op_call& c) {
  return ops::geometry(c.in[0].dims(), c.options.as<pool_options>());
}

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto o = options.as<pool_options>();
  const auto& x = in[0].dims;
  const auto window_elements = std::int64_t{o.window_h} * o.window_w;
  ops::require(x.rank() == 4 && x[1] > 0 && x[2] > 0 && o.window_h > 0
                 && o.window_w > 0 && window_elements <= 256 && o.stride_h > 0
                 && o.stride_w > 0,
               "max_pool2d x [n, h, w, c], a window of 1 to 256 elements, "
               "strides of 1 or more",
               in);
  const auto rows = ops::fit_window(x[1], o.window_h, o.stride_h, o.pad);
  const auto columns = ops::fit_window(x[2], o.window_w, o.stride_w, o.pad);
  ops::require(rows.out > 0 && columns.out > 0,
               "a window no larger than the image", in);
  return {{x[0], rows.out, columns.out, x[3]}, in[0].type};
}

void forward(op_call& c) {
  c.saved.push_back(tensor{c.out[0].dims(), dtype::uint8});
  ops::max_pool(geometry(c), c.in[0].data<float>().data(),
                c.out[0].mutable_data<float>().data(),
                c.saved[0].mutable_data<std::uint8_t>().data());
}

void backward(op_call& c) {
  if (c.wants(0))
    ops::max_pool_backward(geometry(c), c.grad_out[0].data<float>().data(),
                           c.saved[0].data<std::uint8_t>().data(),
                           c.grad_in[0].mutable_data<float>().data(),
                           c.accumulates(0));
}

/// Returns the index in x of the maximum of a window. `y` is the index of the
/// window's output element.
std::size_t max_index(const pool_window& g, std::span<const double> x,
                      std::size_t y) {
  const auto c = y % g.channels, j = y / g.channels % g.out_width,
             i = y / g.channels / g.out_width % g.out_height,
             n = y / g.channels / g.out_width / g.out_height;
  std::size_t best = x.size();
  for (std::size_t u = 0; u < g.window_height; ++u)
    for (std::size_t v = 0; v < g.window_width; ++v) {
      const auto r = i * g.stride_height + u - g.top,
                 s = j * g.stride_width + v - g.left;
      if (r >= g.height
          || s >= g.width) // An index before the image wraps to a large one.
        continue;
      const auto at = ((n * g.height + r) * g.width + s) * g.channels + c;
      if (best == x.size() || x[at] > x[best]
          || (std::isnan(x[at]) && !std::isnan(x[best])))
        best = at;
    }
  return best;
}

void reference_forward(op_call& c) {
  const auto g = geometry(c);
  const auto x = c.in[0].data<double>();
  auto y = c.out[0].mutable_data<double>();
  for (std::size_t at = 0; at < y.size(); ++at)
    y[at] = x[max_index(g, x, at)];
}

void reference_backward(op_call& c) {
  const auto g = geometry(c);
  const auto x = c.in[0].data<double>(), gy = c.grad_out[0].data<double>();
  auto gx = c.grad_in[0].mutable_data<double>();
  if (!c.accumulates(0))
    std::ranges::fill(gx, 0);
  for (std::size_t at = 0; at < gy.size(); ++at)
    gx[max_index(g, x, at)] += gy[at];
}

const std::array cases{
  op_case{{{1, 2, 2, 1}}, pool_options{}},
  op_case{{{3, 5, 7, 3}}, pool_options{}},
  op_case{{{2, 6, 8, 17}}, pool_options{}},
  op_case{{{2, 28, 28, 32}}, pool_options{}},
  op_case{{{2, 9, 7, 5}}, pool_options{3, 2, 2, 1, padding::same}},
  op_case{{{1, 5, 5, 4}}, pool_options{3, 3, 1, 1, padding::same}},
  op_case{{{0, 4, 4, 2}}, pool_options{}},
};

constexpr std::array float_kernels{
  op_kernels{dtype::float32, forward, backward},
  op_kernels{dtype::float64, reference_forward, reference_backward},
};

} // namespace

const op ops::max_pool2d{
  .name = "max_pool2d",
  .infer = infer,
  .kernels = float_kernels,
  .cases = cases,
  .formula = "max over each window",
};

tensor max_pool2d(const tensor& x, const pool_options& options) {
  return apply(ops::max_pool2d, {x}, options);
}

} // namespace troupe
