#include "troupe/tensors/cuda/ops/convolution.hpp"

#include "troupe/tensors/ops/add_in_place.hpp"

namespace troupe::cuda {

/// Calls `kernel(to)`, which writes the gradient of input i to `to`.
template <class F>
static void write_gradient(op_call& call, std::size_t i, F kernel) {
  if (!call.wants(i))
    return;
  auto& gradient = call.grad_in[i];
  if (!call.accumulates(i))
    return kernel(gradient);
  tensor addend{gradient.spec(), call.on};
  kernel(addend);
  put_gradient(call, i, addend);
}

void write_convolution_gradients(op_call& call, const conv_geometry& what,
                                 const tensor& grad_y, image_layout layout) {
  const bool in_planes = layout == image_layout::planes;
  write_gradient(call, 1, [&](tensor& to) {
    convolve_backward_weights(
      what, in_planes ? to_planes(call.in[0]) : call.in[0], grad_y, to, layout);
  });
  write_gradient(call, 0, [&](tensor& to) {
    if (!in_planes)
      return convolve_backward_data(what, grad_y, call.in[1], to);
    tensor planes{to.spec(), call.on};
    convolve_backward_data(what, grad_y, call.in[1], planes, layout);
    from_planes(planes, to);
  });
}

} // namespace troupe::cuda
