#pragma once

#include "troupe/tensors/tensor.hpp"

#include <iosfwd>

namespace troupe {

/// Prints a scalar as its number. Prints any other tensor as type, shape and at
/// most 16 elements: "float32[2, 3] 1 2 3 4 5 6".
std::ostream& operator<<(std::ostream& out, const tensor& x);

} // namespace troupe
