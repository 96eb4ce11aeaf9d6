#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe::ops {

/// Rows [begin, end) along the first axis.
struct slice_rows {
  std::int64_t begin = 0, end = 0;
};

/// The op that a tape records for `tensor::slice`, with `slice_rows` as
/// options. The result shares its elements with the input.
extern const op slice;

} // namespace troupe::ops
