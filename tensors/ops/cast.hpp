#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Target type: float32 or float64.
struct cast_type {
  dtype type = dtype::float32;
};

/// Recorded by `tensor::as`, with `cast_type` as options. The gradient is
/// converted back.
extern const op cast;

} // namespace troupe::ops
