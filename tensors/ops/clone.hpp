#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// The op that a tape records for `tensor::clone`.
extern const op clone;

} // namespace troupe::ops
