#include "troupe/tensors/ops/conv2d.hpp"

#include "troupe/tensors/cuda/cudnn/convolution.hpp"
#include "troupe/tensors/cuda/ops/bias_activation.hpp"
#include "troupe/tensors/cuda/ops/convolution.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/ops/geometry.hpp"

#include <array>

namespace troupe::cuda {

namespace {

conv2d_options options_of(const op_call& c) {
  return c.options.as<conv2d_options>();
}

conv_geometry geometry(const op_call& c) {
  return ops::geometry(c.in[0].dims(), c.in[1].dims(), options_of(c));
}

void forward(op_call& c) {
  auto& y = c.out[0];
  auto products =
    c.type == dtype::float32 ? y : tensor{{y.dims(), dtype::float32}, c.on};
  convolve(geometry(c), c.in[0], c.in[1], products);
  add_bias(c, products, c.in[2], options_of(c).f, y);
}

void backward(op_call& c) {
  mask_and_sum_columns(c, options_of(c).f);
  write_convolution_gradients(c, geometry(c), c.grad_out[0]);
}

constexpr std::array rows{
  op_kernels{.type = dtype::float32,
             .forward = forward,
             .backward = backward,
             .device = device_kind::cuda},
  op_kernels{.type = dtype::bfloat16,
             .forward = forward,
             .backward = backward,
             .device = device_kind::cuda},
};

} // namespace

std::span<const op_kernels> conv2d_kernels() {
  return rows;
}

} // namespace troupe::cuda
