#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Options of `to_device`.
struct target_device {
  device on;
};

/// The op that a tape records for `tensor::to`.
extern const op to_device;

} // namespace troupe::ops
