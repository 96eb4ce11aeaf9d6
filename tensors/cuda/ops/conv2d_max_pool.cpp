#include "troupe/tensors/ops/conv2d_max_pool.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/cuda/cudnn/convolution.hpp"
#include "troupe/tensors/cuda/kernels/one_channel_pool.hpp"
#include "troupe/tensors/cuda/kernels/plane_pooling.hpp"
#include "troupe/tensors/cuda/kernels/pooling.hpp"
#include "troupe/tensors/cuda/ops/bias_activation.hpp"
#include "troupe/tensors/cuda/ops/convolution.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
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
  conv_geometry conv;
  shape between; ///< Shape of the result of the convolution.
  pool_window pool;
};

const float* floats(const tensor& x) {
  return reinterpret_cast<const float*>(x.address());
}
float* mutable_floats(tensor& x) {
  return reinterpret_cast<float*>(x.mutable_address());
}
std::uint8_t* indices_of(const op_call& c) {
  return reinterpret_cast<std::uint8_t*>(c.saved[0].address());
}

/// True if the convolution's result is in planes. cuDNN computes float32
/// without TF32 in planes. It would transpose a result with contiguous
/// channels, which is larger than the images and the pooled result.
bool computes_in_planes(const op_call& c, const geometry& g) {
  return c.type == dtype::float32 && !current_context().allows_tf32
         && g.conv.top == g.conv.bottom && g.conv.left == g.conv.right
         && has_plane_kernel(g.pool);
}

void forward_in_planes(op_call& c, const geometry& g) {
  tensor products{{g.between, dtype::float32}, c.on};
  convolve(g.conv, to_planes(c.in[0]), c.in[1], products, image_layout::planes);
  check(bias_max_pool_planes(g.pool, floats(products), floats(c.in[2]),
                             g.options.conv.f == activation::relu,
                             mutable_floats(c.out[0]), indices_of(c),
                             compute_stream(c.on)),
        "the kernel for the bias and the pooling of conv2d_max_pool");
}

void forward(op_call& c) {
  c.saved.push_back(tensor{{c.out[0].dims(), dtype::uint8}, c.on});
  const geometry g{c};
  if (has_one_channel_pool_kernel(g.conv, g.pool))
    return check(one_channel_max_pool(g.conv, g.pool, c.type, c.in[0].address(),
                                      c.in[1].address(), c.in[2].address(),
                                      g.options.conv.f == activation::relu,
                                      c.out[0].mutable_address(), indices_of(c),
                                      compute_stream(c.on)),
                 "the kernel of conv2d_max_pool for images of one channel");
  if (computes_in_planes(c, g))
    return forward_in_planes(c, g);
  // Pooling reads float32, so that rounding to bfloat16 changes no index of a
  // maximum.
  tensor products{{g.between, dtype::float32}, c.on};
  convolve(g.conv, c.in[0], c.in[1], products);
  check(bias_max_pool(g.pool, c.type, floats(products), c.in[2].address(),
                      g.options.conv.f == activation::relu,
                      c.out[0].mutable_address(), indices_of(c),
                      compute_stream(c.on)),
        "the kernel for the bias and the pooling of conv2d_max_pool");
}

/// Writes the gradients of the weights and the bias, for images of one channel.
void write_one_channel_gradients(op_call& c, const geometry& g) {
  const auto target = [&](std::size_t i) {
    return c.wants(i) && !c.accumulates(i) ? c.grad_in[i]
                                           : tensor{c.in[i].spec(), c.on};
  };
  auto grad_w = target(1), grad_b = target(2);
  tensor scratch{
    {shape{static_cast<std::int64_t>(one_channel_pool_scratch(g.conv, g.pool))},
     dtype::float32},
    c.on};
  const bool relu = g.options.conv.f == activation::relu;
  check(one_channel_pool_gradients(
          g.conv, g.pool, c.type, c.in[0].address(), c.grad_out[0].address(),
          relu ? c.out[0].address() : nullptr, indices_of(c),
          mutable_floats(scratch), grad_w.mutable_address(),
          grad_b.mutable_address(), compute_stream(c.on)),
        "the kernel for the gradients of conv2d_max_pool");
  if (c.wants(1) && c.accumulates(1))
    put_gradient(c, 1, grad_w);
  if (c.wants(2) && c.accumulates(2))
    put_gradient(c, 2, grad_b);
}

void backward(op_call& c) {
  // The gradient of a window goes to one element, the maximum of the window,
  // and relu's mask depends on that maximum only. Therefore the mask and the
  // bias gradient are computed before the gradient is distributed to the
  // elements.
  const geometry g{c};
  if (c.wants(1) && !c.wants(0) && has_one_channel_pool_kernel(g.conv, g.pool))
    return write_one_channel_gradients(c, g);
  mask_and_sum_columns(c, g.options.conv.f);
  if (!c.wants(0) && !c.wants(1))
    return;
  tensor grad_products{{g.between, c.type}, c.on};
  if (computes_in_planes(c, g)) {
    check(max_pool_planes_backward(g.pool, floats(c.grad_out[0]), indices_of(c),
                                   mutable_floats(grad_products),
                                   compute_stream(c.on)),
          "the kernel for the gradient of the pooling of conv2d_max_pool");
    return write_convolution_gradients(c, g.conv, grad_products,
                                       image_layout::planes);
  }
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
