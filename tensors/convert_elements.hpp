#pragma once

#include "troupe/tensors/tensor.hpp"

namespace troupe {

/// Converts the elements of `from` to the dtype of `to`. No tape records it.
/// Users call `tensor::as`.
/// @shape both tensors have one shape and device.
void convert_elements(const tensor& from, tensor& to);

} // namespace troupe
