#pragma once

#include "troupe/tensors/op.hpp"

#include <cstddef>

namespace troupe::ops {

// What embedding_lookup computes in the same way on all devices. Only its
// sources include this file.

/// Returns the number of elements of a row of a table.
std::size_t elements_of_row(const shape& table);

/// The backward pass.
void embedding_lookup_backward(op_call& c);

} // namespace troupe::ops
