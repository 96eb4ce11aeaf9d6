#include "troupe/tensors/ops/conv2d_max_pool.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/bias_activation.hpp"
#include "troupe/tensors/ops/conv2d_cases.hpp"
#include "troupe/tensors/ops/geometry.hpp"
#include "troupe/tensors/ops/pooling.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace troupe {

namespace {

conv_pool_options options_of(const op_call& c) {
  return c.options.as<conv_pool_options>();
}

tensor_spec convolved(std::span<const tensor_spec> in,
                      const conv_pool_options& o) {
  return ops::conv2d.infer(in, o.conv)[0].spec;
}

const op_kernels& reference(const op& definition) {
  return *definition.find_kernels(dtype::float64);
}

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto o = options.as<conv_pool_options>();
  const std::array between{convolved(in, o)};
  return ops::max_pool2d.infer(between, o.pool);
}

/// Divides the images into tiles of a few images. Convolution and pooling run
/// on one tile after the other; `conv_output` is the buffer between them.
struct tiling {
  /// Maximum number of bytes per thread in a tile, for the images and their
  /// convolution output. It is the size of a second-level cache. If one image
  /// exceeds it, a tile has one image per thread.
  static constexpr std::size_t tile_bytes = 1u << 20;

  explicit tiling(const op_call& c)
    : conv{ops::geometry(c.in[0].dims(), c.in[1].dims(), options_of(c).conv)},
      images{conv.n},
      x_floats{conv.h * conv.w * conv.ci},
      conv_floats{conv.oh * conv.ow * conv.co} {
    const auto fitting =
      tile_bytes / sizeof(float) / std::size_t(x_floats + conv_floats);
    const auto each = std::bit_floor(std::max<std::size_t>(fitting, 1));
    tile_images = std::min(std::int64_t(each) * onednn::threads(), images);
    conv_output = tensor{{tile_images, conv.oh, conv.ow, conv.co}};
    pool = ops::geometry(conv_output.dims(), options_of(c).pool);
    out_floats = std::int64_t(pool.out_height * pool.out_width) * conv.co;
  }

  /// Calls `fn(index of the first image)` for each tile. During the call,
  /// `conv` and `pool` have the tile's number of images.
  template <class F>
  void each(F fn) {
    for (std::int64_t i = 0; i < images; i += tile_images) {
      conv.n = std::min(tile_images, images - i);
      pool.count = std::size_t(conv.n);
      fn(i);
    }
  }

  conv_geometry conv;
  pool_window pool{};
  std::int64_t images, tile_images = 0;
  /// Number of floats of one image.
  std::int64_t x_floats, conv_floats, out_floats = 0;
  tensor conv_output;
};

void forward(op_call& c) {
  c.saved.push_back(tensor{c.out[0].dims(), dtype::uint8});
  tiling p{c};
  const auto* x = c.in[0].data<float>().data();
  auto* conv_output = p.conv_output.mutable_data<float>().data();
  auto* out = c.out[0].mutable_data<float>().data();
  auto* indices = c.saved[0].mutable_data<std::uint8_t>().data();
  p.each([&](std::int64_t i) {
    onednn::forward(p.conv, x + i * p.x_floats, c.in[1].data<float>().data(),
                    c.in[2].data<float>().data(), conv_output);
    ops::max_pool(p.pool, conv_output, out + i * p.out_floats,
                  indices + i * p.out_floats);
  });
  if (options_of(c).conv.f == activation::relu)
    for_elements(c.out[0].size(), [&](std::size_t begin, std::size_t end) {
      kernels().relu(out + begin, out + begin, end - begin);
    });
}

void backward(op_call& c) {
  // The gradient of a window goes to one element, the maximum of the window,
  // and relu's mask depends on that maximum only. Therefore the mask and the
  // bias gradient are computed before the gradient is distributed to the
  // elements.
  ops::mask_and_sum_columns(c, options_of(c).conv.f);
  if (!c.wants(0) && !c.wants(1))
    return;
  tiling p{c};
  const auto* x = c.in[0].data<float>().data();
  const auto* w = c.in[1].data<float>().data();
  const auto* g = c.grad_out[0].data<float>().data();
  const auto* indices = c.saved[0].data<std::uint8_t>().data();
  auto* conv_output = p.conv_output.mutable_data<float>().data();
  const auto written = [&](std::size_t i) {
    return c.wants(i) ? tensor{c.in[i].spec()} : tensor{};
  };
  auto gw = written(1), gx = c.accumulates(0) ? written(0) : c.grad_in[0];
  if (c.wants(1) && (p.images == 0 && !c.accumulates(1)))
    std::ranges::fill(c.grad_in[1].mutable_data<float>(), 0.0f);
  p.each([&](std::int64_t i) {
    ops::max_pool_backward(p.pool, g + i * p.out_floats,
                           indices + i * p.out_floats, conv_output, false);
    if (c.wants(1)) {
      auto* gradient = c.grad_in[1].mutable_data<float>().data();
      const bool first = i == 0 && !c.accumulates(1);
      auto* tile_gradient = first ? gradient : gw.mutable_data<float>().data();
      onednn::backward_weights(p.conv, x + i * p.x_floats, conv_output,
                               tile_gradient);
      if (!first)
        add_in_place(c.grad_in[1], gw);
    }
    if (c.wants(0))
      onednn::backward_data(p.conv, conv_output, w,
                            gx.mutable_data<float>().data() + i * p.x_floats);
  });
  if (c.wants(0) && c.accumulates(0))
    add_in_place(c.grad_in[0], gx);
}

// In bfloat16, pooling reads the results of the convolution in float32, so that
// rounding changes no index of a maximum.

void round(const float* from, std::uint16_t* to, std::int64_t n) {
  for_elements(std::size_t(n), [&](std::size_t begin, std::size_t end) {
    kernels().to_bfloat16(to + begin, from + begin, end - begin);
  });
}

void forward_bfloat16(op_call& c) {
  c.saved.push_back(tensor{c.out[0].dims(), dtype::uint8});
  tiling p{c};
  tensor tile{shape{p.tile_images * p.out_floats}};
  const auto* x = c.in[0].data<bfloat16>().data();
  auto* conv_output = p.conv_output.mutable_data<float>().data();
  auto* pooled = tile.mutable_data<float>().data();
  auto* out = ops::bits_of(c.out[0]);
  auto* indices = c.saved[0].mutable_data<std::uint8_t>().data();
  p.each([&](std::int64_t i) {
    onednn::forward(p.conv, x + i * p.x_floats, c.in[1].data<bfloat16>().data(),
                    c.in[2].data<bfloat16>().data(), conv_output);
    ops::max_pool(p.pool, conv_output, pooled, indices + i * p.out_floats);
    round(pooled, out + i * p.out_floats, p.conv.n * p.out_floats);
  });
  if (options_of(c).conv.f == activation::relu)
    ops::relu_bfloat16(c.out[0]);
}

void backward_bfloat16(op_call& c) {
  ops::mask_and_sum_columns_bfloat16(c, options_of(c).conv.f);
  if (!c.wants(0) && !c.wants(1))
    return;
  tiling p{c};
  tensor tile{shape{p.tile_images * p.out_floats}};
  const auto* x = c.in[0].data<bfloat16>().data();
  const auto* w = c.in[1].data<bfloat16>().data();
  const auto* g = ops::bits_of(c.grad_out[0]);
  auto* pooled = tile.mutable_data<float>().data();
  const auto* indices = c.saved[0].data<std::uint8_t>().data();
  auto* conv_output = p.conv_output.mutable_data<float>().data();
  tensor rounded{p.conv_output.dims(), dtype::bfloat16};
  // The sum over all tiles is float32.
  auto gw = !c.wants(1)        ? tensor{}
            : c.accumulates(1) ? c.grad_in[1].as(dtype::float32)
                               : tensor::zeros(c.in[1].dims());
  auto gx = c.wants(0) && c.accumulates(0) ? tensor{c.in[0].dims()} : tensor{};
  tensor tile_gw = c.wants(1) ? tensor{c.in[1].dims()} : tensor{};
  p.each([&](std::int64_t i) {
    const auto n = std::size_t(p.conv.n * p.out_floats);
    for_elements(n, [&](std::size_t begin, std::size_t end) {
      kernels().from_bfloat16(pooled + begin, g + i * p.out_floats + begin,
                              end - begin);
    });
    ops::max_pool_backward(p.pool, pooled, indices + i * p.out_floats,
                           conv_output, false);
    round(conv_output, ops::bits_of(rounded), p.conv.n * p.conv_floats);
    const auto* grad_conv = rounded.data<bfloat16>().data();
    if (c.wants(1)) {
      onednn::backward_weights(p.conv, x + i * p.x_floats, grad_conv,
                               tile_gw.mutable_data<float>().data());
      add_in_place(gw, tile_gw);
    }
    if (gx)
      onednn::backward_data(p.conv, grad_conv, w,
                            gx.mutable_data<float>().data() + i * p.x_floats);
    else if (c.wants(0))
      onednn::backward_data(p.conv, grad_conv, w,
                            c.grad_in[0].mutable_data<bfloat16>().data()
                              + i * p.x_floats);
  });
  if (gw)
    c.grad_in[1].copy_from(gw.as(dtype::bfloat16));
  if (gx) {
    add_in_place(gx, c.grad_in[0].as(dtype::float32));
    c.grad_in[0].copy_from(gx.as(dtype::bfloat16));
  }
}

/// Computes the output of the convolution, which is the input of the pooling.
tensor reference_between(const op_call& c) {
  const std::array in{c.in[0].spec(), c.in[1].spec(), c.in[2].spec()};
  op_call conv;
  conv.options = options_of(c).conv;
  conv.in = c.in;
  conv.out.push_back(tensor{convolved(in, options_of(c))});
  reference(ops::conv2d).forward(conv);
  return conv.out[0];
}

void reference_forward(op_call& c) {
  const std::array between{reference_between(c)};
  op_call pool;
  pool.options = options_of(c).pool;
  pool.in = between;
  pool.out = c.out;
  reference(ops::max_pool2d).forward(pool);
}

void reference_backward(op_call& c) {
  const std::array between{reference_between(c)};
  std::array grad{tensor{between[0].spec()}};
  op_call pool;
  pool.options = options_of(c).pool;
  pool.in = between;
  pool.grad_out = c.grad_out;
  pool.grad_in = grad;
  reference(ops::max_pool2d).backward(pool);
  op_call conv = c;
  conv.options = options_of(c).conv;
  conv.out = {between[0]};
  conv.grad_out = {grad[0]};
  reference(ops::conv2d).backward(conv);
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

const op ops::conv2d_max_pool{
  .name = "conv2d_max_pool",
  .inputs = three_inputs,
  .infer = infer,
  .kernels = float_kernels,
  .saves_outputs = true,
  .cases = conv2d_max_pool_cases,
  .formula = "max over each window of f(x * w + b)",
};

tensor conv2d_max_pool(const tensor& x, const tensor& w, const tensor& b,
                       const conv_pool_options& options) {
  return apply(ops::conv2d_max_pool, {x, w, b}, options);
}

} // namespace troupe
