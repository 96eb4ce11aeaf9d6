#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// sum += x, elementwise.
/// @shape Both tensors have one shape and dtype: float32 or float64.
void add_in_place(tensor& sum, const tensor& x);

/// Writes `gradient` to `call.grad_in[i]`. If bit i of `call.accumulate` is
/// set, adds `gradient` to `call.grad_in[i]` instead.
/// @pre `call.wants(i)`
/// @shape `gradient` has the shape of input `i`.
void put_gradient(op_call& call, std::size_t i, const tensor& gradient);

} // namespace troupe
