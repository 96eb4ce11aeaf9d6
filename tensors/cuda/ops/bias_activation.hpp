#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe::cuda {

// Parts of fused ops whose input 2 is a bias over the last axis. For float32,
// float64 and bfloat16, which is computed in float32 and rounded once.

/// Computes y = f(x + bias).
/// @shape x [..., n] of the dtype in which y is computed, or y itself
/// @shape bias [n], y as x, of one dtype
void add_bias(const op_call& call, const tensor& x, const tensor& bias,
              activation f, tensor& y);

/// Replaces the elements of y by relu(y). NaN stays NaN.
void apply_relu(const op_call& call, tensor& y);

/// Starts the backward pass of a fused op. Multiplies `grad_out` in place by
/// the derivative of the activation. Then writes the column sums of `grad_out`
/// to the gradient of the bias, if it is requested. The sums are added in an
/// order that depends on the shape only.
void mask_and_sum_columns(op_call& call, activation f);

} // namespace troupe::cuda
