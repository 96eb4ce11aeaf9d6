#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe {

/// y = f(x w + b): the matrix product with bias and activation in one op.
/// @shape x [n, in] float32 or float64
/// @shape w  [in, out]
/// @shape b  [out]
/// @returns [n, out]
/// @errors throws std::logic_error with the shapes.
/// @cost 2 n in out flops forward, twice as many backward.
tensor dense(const tensor& x, const tensor& w, const tensor& b,
             activation f = activation::none);

/// Matrix product a b, with optional transposition of either operand.
/// @shape a  [m, k], or [k, m] if `transpose_a`
/// @shape b  [k, n], or [n, k] if `transpose_b`
/// @returns [m, n]
/// @errors throws std::logic_error with the shapes.
tensor matmul(const tensor& a, const tensor& b, bool transpose_a = false,
              bool transpose_b = false);

namespace ops {

/// Operands of a `matmul` that are transposed.
struct matmul_options {
  bool a = false, b = false;
};

/// Options: `activation` and `matmul_options`.
extern const op dense, matmul;

} // namespace ops

} // namespace troupe
