#pragma once

#include "troupe/tensors/cuda/cudnn/convolution.hpp"
#include "troupe/tensors/op.hpp"

namespace troupe::cuda {

// The backward pass of the ops with a convolution, whose inputs 0 and 1 are x
// and w. Only the sources of these ops include this file.

/// Writes the gradients of x and w that are requested.
/// @param grad_y gradient of the convolution's result, [n, oh, ow, co].
/// @param layout of grad_y.
void write_convolution_gradients(
  op_call& call, const conv_geometry& what, const tensor& grad_y,
  image_layout layout = image_layout::channels_last);

} // namespace troupe::cuda
