#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Recorded by `tensor::clone`.
extern const op clone;

} // namespace troupe::ops
