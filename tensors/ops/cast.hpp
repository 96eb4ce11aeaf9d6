#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// float32 or float64.
struct cast_type {
  dtype type = dtype::float32;
};

/// What `tensor::as` records; its options are a `cast_type`. The gradient is
/// converted back.
extern const op cast;

} // namespace troupe::ops
