#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe::ops {

/// List of all built-in ops. `find_op` finds them by name, the tests check the
/// gradient and shape of each op, and docs/ops.md lists them.
extern const std::span<const op* const> built_in;

} // namespace troupe::ops
