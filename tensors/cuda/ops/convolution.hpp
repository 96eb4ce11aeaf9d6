#pragma once

#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe::cuda {

// The backward pass of the ops with a convolution, whose inputs are x, w and
// b. Only the sources of these ops include this file.

/// Multiplies `grad_out[0]` in place by the derivative of the activation. Then
/// writes its sums over all pixels to the gradient of b, if that is requested.
void mask_and_sum_channels(op_call& call, activation f);

/// Writes the gradients of x and w that are requested.
/// @param grad_y gradient of the convolution's result, [n, oh, ow, co].
void write_convolution_gradients(op_call& call, const onednn::convolution& what,
                                 const tensor& grad_y);

} // namespace troupe::cuda
