#pragma once

#include "troupe/tensors/tensor.hpp"

namespace troupe {

/// sum += x, elementwise.
/// @shape both  the same; float32 or float64.
void add_in_place(tensor& sum, const tensor& x);

} // namespace troupe
