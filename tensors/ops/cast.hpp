#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Target type: a float dtype.
struct cast_type {
  dtype type = dtype::float32;
};

/// The op that a tape records for `tensor::as`, with `cast_type` as options. It
/// converts the gradient back to the dtype of the input.
extern const op cast;

} // namespace troupe::ops
