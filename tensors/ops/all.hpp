#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe::ops {

/// The one list of built-in ops. Dispatch by name, gradient checks, the grid of
/// shapes, and docs/ops.md all read it.
extern const std::span<const op* const> all;

} // namespace troupe::ops
