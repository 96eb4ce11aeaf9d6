#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// sum += x, elementwise.
/// @shape both  the same; float32 or float64.
void add_in_place(tensor& sum, const tensor& x);

/// Stores the gradient of input `i`, or adds it, as the call asks.
/// @pre `call.wants(i)`
/// @shape gradient  the input's.
void put_gradient(op_call& call, std::size_t i, const tensor& gradient);

} // namespace troupe
