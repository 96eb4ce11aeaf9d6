#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// What `tensor::clone` records.
extern const op clone;

} // namespace troupe::ops
