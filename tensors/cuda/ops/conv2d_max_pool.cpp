#include "troupe/tensors/ops/conv2d_max_pool.hpp"

#include "troupe/tensors/cuda/cudnn/convolution.hpp"
#include "troupe/tensors/cuda/kernels/pooling.hpp"
#include "troupe/tensors/cuda/ops/bias_activation.hpp"
#include "troupe/tensors/cuda/ops/convolution.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/ops/geometry.hpp"

#include <array>

namespace troupe::cuda {

namespace {

/// The convolution of a call, and the pooling of its result.
struct geometry {
  explicit geometry(const op_call& c)
    : options{c.options.as<conv_pool_options>()},
      conv{ops::geometry(c.in[0].dims(), c.in[1].dims(), options.conv)},
      between{conv.n, conv.oh, conv.ow, conv.co},
      pool{ops::geometry(between, options.pool)} {}

  conv_pool_options options;
  onednn::convolution conv;
  shape between; ///< Of the result of the convolution.
  pool_window pool;
};

std::uint8_t* indices_of(const op_call& c) {
  return reinterpret_cast<std::uint8_t*>(c.saved[0].address());
}

void forward(op_call& c) {
  c.saved.push_back(tensor{{c.out[0].dims(), dtype::uint8}, c.on});
  const geometry g{c};
  // Pooling reads float32, so that rounding to bfloat16 changes no index of a
  // maximum.
  tensor products{{g.between, dtype::float32}, c.on};
  convolve(g.conv, c.in[0], c.in[1], products);
  check(bias_max_pool(
          g.pool, c.type, reinterpret_cast<float*>(products.address()),
          c.in[2].address(), g.options.conv.f == activation::relu,
          c.out[0].mutable_address(), indices_of(c), compute_stream(c.on)),
        "the kernel for the bias and the pooling of conv2d_max_pool");
}

void backward(op_call& c) {
  // The gradient of a window goes to one element, the maximum of the window,
  // and relu's mask depends on that maximum only. Therefore the mask and the
  // bias gradient are computed before the gradient is distributed to the
  // elements.
  const geometry g{c};
  mask_and_sum_columns(c, g.options.conv.f);
  if (!c.wants(0) && !c.wants(1))
    return;
  tensor grad_products{{g.between, c.type}, c.on};
  check(max_pool_backward(g.pool, c.type, c.grad_out[0].address(),
                          indices_of(c), grad_products.mutable_address(), false,
                          compute_stream(c.on)),
        "the kernel for the gradient of the pooling of conv2d_max_pool");
  write_convolution_gradients(c, g.conv, grad_products);
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

std::span<const op_kernels> conv2d_max_pool_kernels() {
  return rows;
}

} // namespace troupe::cuda
