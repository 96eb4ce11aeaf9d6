#include "troupe/tensors/ops/conv2d.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/bias_activation.hpp"
#include "troupe/tensors/ops/check.hpp"
#include "troupe/tensors/ops/conv2d_cases.hpp"
#include "troupe/tensors/ops/geometry.hpp"

#include <algorithm>

namespace troupe {

conv_geometry ops::geometry(const shape& x, const shape& w,
                            const conv2d_options& o) {
  const auto rows = ops::fit_window(x[1], w[0], o.stride_h, o.pad);
  const auto columns = ops::fit_window(x[2], w[1], o.stride_w, o.pad);
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .ci = x[3],
          .co = w[3],
          .kh = w[0],
          .kw = w[1],
          .oh = rows.out,
          .ow = columns.out,
          .stride_h = o.stride_h,
          .stride_w = o.stride_w,
          .top = rows.before,
          .bottom = rows.after,
          .left = columns.before,
          .right = columns.after};
}

namespace {

conv_geometry geometry(const op_call& c) {
  return ops::geometry(c.in[0].dims(), c.in[1].dims(),
                       c.options.as<conv2d_options>());
}

bool has_relu(const op_call& c) {
  return c.options.as<conv2d_options>().f == activation::relu;
}

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto o = options.as<conv2d_options>();
  const auto &x = in[0].dims, &w = in[1].dims, &b = in[2].dims;
  ops::require(
    x.rank() == 4 && w.rank() == 4 && b.rank() == 1 && x[3] == w[2]
      && w[3] == b[0] && x[1] > 0 && x[2] > 0 && w[0] > 0 && w[1] > 0
      && w[2] > 0 && w[3] > 0 && o.stride_h > 0 && o.stride_w > 0,
    "conv2d x [n, h, w, ci], w [kh, kw, ci, co], b [co], extents and "
    "strides of 1 or more",
    in);
  const auto g = ops::geometry(x, w, o);
  ops::require(g.oh > 0 && g.ow > 0, "a window no larger than the image", in);
  return {{g.n, g.oh, g.ow, g.co}, in[0].type};
}

void forward(op_call& c) {
  onednn::forward(geometry(c), c.in[0].data<float>().data(),
                  c.in[1].data<float>().data(), c.in[2].data<float>().data(),
                  c.out[0].mutable_data<float>().data());
  if (has_relu(c)) {
    auto* y = c.out[0].mutable_data<float>().data();
    for_elements(c.out[0].size(), [&](std::size_t begin, std::size_t end) {
      kernels().relu(y + begin, y + begin, end - begin);
    });
  }
}

void forward_bfloat16(op_call& c) {
  onednn::forward(geometry(c), c.in[0].data<bfloat16>().data(),
                  c.in[1].data<bfloat16>().data(),
                  c.in[2].data<bfloat16>().data(),
                  c.out[0].mutable_data<bfloat16>().data());
  if (has_relu(c))
    ops::relu_bfloat16(c.out[0]);
}

/// Output buffer for a kernel that can write but not add. If the gradient must
/// be added, the buffer is a temporary tensor that `finish` adds. Otherwise it
/// is the gradient itself.
struct destination {
  destination(op_call& c, std::size_t i)
    : gradient{c.grad_in[i]},
      output{c.accumulates(i) ? tensor{gradient.spec()} : gradient} {}

  float* data() { return output.mutable_data<float>().data(); }
  void finish() {
    if (!output.shares_storage_with(gradient))
      add_in_place(gradient, output);
  }

  tensor gradient, output;
};

void backward(op_call& c) {
  const auto g = geometry(c);
  ops::mask_and_sum_columns(c, c.options.as<conv2d_options>().f);
  const auto* gy = c.grad_out[0].data<float>().data();
  if (c.wants(1)) {
    destination gw{c, 1};
    onednn::backward_weights(g, c.in[0].data<float>().data(), gy, gw.data());
    gw.finish();
  }
  if (c.wants(0)) {
    destination gx{c, 0};
    onednn::backward_data(g, gy, c.in[1].data<float>().data(), gx.data());
    gx.finish();
  }
}

void backward_bfloat16(op_call& c) {
  const auto g = geometry(c);
  ops::mask_and_sum_columns_bfloat16(c, c.options.as<conv2d_options>().f);
  const auto* gy = c.grad_out[0].data<bfloat16>().data();
  /// Calls `kernel(to)`, which writes the gradient of input i.
  const auto write = [&](std::size_t i, auto kernel) {
    if (!c.wants(i))
      return;
    if (!c.accumulates(i))
      return kernel(c.grad_in[i].mutable_data<bfloat16>().data());
    // Only the sum is rounded.
    auto sum = c.grad_in[i].as(dtype::float32);
    tensor gradient{sum.dims()};
    kernel(gradient.mutable_data<float>().data());
    add_in_place(sum, gradient);
    c.grad_in[i].copy_from(sum.as(dtype::bfloat16));
  };
  write(1, [&](auto* to) {
    onednn::backward_weights(g, c.in[0].data<bfloat16>().data(), gy, to);
  });
  write(0, [&](auto* to) {
    onednn::backward_data(g, gy, c.in[1].data<bfloat16>().data(), to);
  });
}

/// Calls `fn(i, j, k)` for every product x[i] * w[j] that is added to y[k].
template <class F>
void each_product(const conv_geometry& g, F fn) {
  std::size_t y = 0;
  for (std::int64_t n = 0; n < g.n; ++n)
    for (std::int64_t i = 0; i < g.oh; ++i)
      for (std::int64_t j = 0; j < g.ow; ++j)
        for (std::int64_t co = 0; co < g.co; ++co, ++y)
          for (std::int64_t k = 0; k < g.kh * g.kw * g.ci; ++k) {
            const auto ci = k % g.ci, v = k / g.ci % g.kw, u = k / g.ci / g.kw;
            const auto r = i * g.stride_h - g.top + u,
                       s = j * g.stride_w - g.left + v;
            if (r >= 0 && r < g.h && s >= 0 && s < g.w)
              fn(std::size_t(((n * g.h + r) * g.w + s) * g.ci + ci),
                 std::size_t(k * g.co + co), y);
          }
}

void reference_forward(op_call& c) {
  const auto g = geometry(c);
  const auto x = c.in[0].data<double>(), w = c.in[1].data<double>(),
             b = c.in[2].data<double>();
  auto y = c.out[0].mutable_data<double>();
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = b[i % b.size()];
  each_product(g, [&](auto i, auto k, auto at) { y[at] += x[i] * w[k]; });
  if (has_relu(c))
    for (auto& v : y)
      v = v < 0 ? 0 : v;
}

void reference_backward(op_call& c) {
  const auto g = geometry(c);
  const auto x = c.in[0].data<double>(), w = c.in[1].data<double>(),
             y = c.out[0].data<double>();
  auto gy = c.grad_out[0].mutable_data<double>();
  if (has_relu(c))
    for (std::size_t i = 0; i < gy.size(); ++i)
      gy[i] = y[i] > 0 ? gy[i] : 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (!c.wants(i))
      continue;
    auto gradient = c.grad_in[i].mutable_data<double>();
    if (!c.accumulates(i))
      std::ranges::fill(gradient, 0);
    if (i == 2)
      for (std::size_t at = 0; at < gy.size(); ++at)
        gradient[at % gradient.size()] += gy[at];
    else
      each_product(g, [&](auto at, auto k, auto out) {
        gradient[i == 0 ? at : k] += gy[out] * (i == 0 ? w[k] : x[at]);
      });
  }
}

constexpr std::array float_kernels{
  op_kernels{dtype::float32, forward, backward},
  op_kernels{dtype::float64, reference_forward, reference_backward},
  op_kernels{.type = dtype::bfloat16,
             .forward = forward_bfloat16,
             .backward = backward_bfloat16,
             .is_supported = onednn::supports_bfloat16},
};

} // namespace

const op ops::conv2d{
  .name = "conv2d",
  .inputs = three_inputs,
  .infer = infer,
  .kernels = float_kernels,
  .saves_outputs = true,
  .cases = conv2d_cases,
  .formula = "f(x * w + b)",
};

tensor conv2d(const tensor& x, const tensor& w, const tensor& b,
              const conv2d_options& options) {
  return apply(ops::conv2d, {x, w, b}, options);
}

} // namespace troupe
