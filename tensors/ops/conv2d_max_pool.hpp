#pragma once

#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe {

struct conv_pool_options {
  conv2d_options conv{};
  pool_options pool{};
};

/// max_pool2d(conv2d(x, w, b)), computed for a few images at a time: the
/// convolution's output stays in the cache and is never stored as a whole. The
/// results are those of the two ops, but gradients are summed in another order.
/// @cost the flops of the two ops. For backward, it keeps its inputs, its
///       result and one byte per element of the result. The two ops also keep
///       the convolution's output.
/// @shape as conv2d and max_pool2d
tensor conv2d_max_pool(const tensor& x, const tensor& w, const tensor& b,
                       const conv_pool_options& options = {});

namespace ops {

extern const op conv2d_max_pool;

} // namespace ops

} // namespace troupe
