#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe::ops {

/// List of all built-in ops. Dispatch by name, gradient checks, shape tests and
/// docs/ops.md read it.
extern const std::span<const op* const> built_in;

} // namespace troupe::ops
