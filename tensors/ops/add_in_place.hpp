#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// sum += x, elementwise.
/// @shape Both tensors have one shape, dtype and device. Elements of bfloat16
/// are added in float32, and each sum is rounded.
void add_in_place(tensor& sum, const tensor& x);

/// Writes `gradient` to `call.grad_in[i]`, or adds it if `call.accumulates(i)`.
/// @pre `call.wants(i)`
/// @shape `gradient` has the shape of input `i`.
void put_gradient(op_call& call, std::size_t i, const tensor& gradient);

} // namespace troupe
