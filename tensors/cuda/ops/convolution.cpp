#include "troupe/tensors/cuda/ops/convolution.hpp"

#include "troupe/tensors/cuda/cudnn/convolution.hpp"
#include "troupe/tensors/cuda/kernels/convolution_parts.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"

namespace troupe::cuda {

void mask_and_sum_channels(op_call& call, activation f) {
  const auto stream = compute_stream(call.on);
  auto& g = call.grad_out[0];
  const auto* y = f == activation::relu ? call.out[0].address() : nullptr;
  if (!call.wants(2)) {
    if (y)
      check(mask_by_relu(call.type, g.mutable_address(), y, g.size(), stream),
            "the kernel for the gradient of relu");
    return;
  }
  auto& sums = call.grad_in[2];
  const auto channels = sums.size(), pixels = g.size() / channels;
  const auto floats = channel_sums_workspace(pixels, channels);
  const tensor workspace{{shape{static_cast<std::int64_t>(floats)}}, call.on};
  check(sum_channels(call.type, g.mutable_address(), y, pixels, channels,
                     reinterpret_cast<float*>(workspace.address()),
                     sums.mutable_address(), call.accumulates(2), stream),
        "the kernel for the gradient of a bias");
}

/// Calls `kernel(to)`, which writes the gradient of input i to `to`.
template <class F>
static void write_gradient(op_call& call, std::size_t i, F kernel) {
  if (!call.wants(i))
    return;
  auto& gradient = call.grad_in[i];
  if (!call.accumulates(i))
    return kernel(gradient);
  // In bfloat16, only the sum is rounded.
  tensor addend{{gradient.dims(), dtype::float32}, call.on};
  kernel(addend);
  if (gradient.type() == dtype::float32)
    return add_in_place(gradient, addend);
  auto sum = gradient.as(dtype::float32);
  add_in_place(sum, addend);
  gradient.copy_from(sum.as(gradient.type()));
}

void write_convolution_gradients(op_call& call, const onednn::convolution& what,
                                 const tensor& grad_y) {
  write_gradient(call, 1, [&](tensor& to) {
    convolve_backward_weights(what, call.in[0], grad_y, to);
  });
  write_gradient(call, 0, [&](tensor& to) {
    convolve_backward_data(what, grad_y, call.in[1], to);
  });
}

} // namespace troupe::cuda
