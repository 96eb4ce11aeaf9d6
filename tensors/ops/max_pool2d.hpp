#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/conv2d.hpp"

namespace troupe {

struct pool_options {
  /// Height and width of a window; each >= 1, their product at most 256.
  std::int32_t window_h = 2, window_w = 2;
  std::int32_t stride_h = 2, stride_w = 2; ///< >= 1
  padding pad = padding::valid;            ///< Padding is never the maximum.
};

/// Computes the maximum of each window. If several elements equal the maximum,
/// the first of them in row-major order gets the gradient.
/// @shape x  [n, h, w, c]
/// @returns [n, oh, ow, c]
/// @errors throws std::logic_error with the shape.
tensor max_pool2d(const tensor& x, const pool_options& options = {});

namespace ops {

extern const op max_pool2d;

} // namespace ops

} // namespace troupe
