#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Rows [begin, end) of the first axis.
struct slice_rows {
  std::int64_t begin = 0, end = 0;
};

/// What `tensor::slice` records; its options are `slice_rows`. The result
/// shares the elements.
extern const op slice;

} // namespace troupe::ops
