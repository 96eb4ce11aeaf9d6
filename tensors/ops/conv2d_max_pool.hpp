#pragma once

#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe {

struct conv_pool_options {
  conv2d_options conv{};
  pool_options pool{};
};

/// max_pool2d(conv2d(x, w, b)), a few images at a time: what the convolution
/// gives stays in the cache and is never stored whole, forward or backward.
/// The results are those of the two ops in turn, up to rounding: gradients are
/// summed in another order.
/// @cost as the two, and what is kept for backward is a quarter or less.
/// @shape  as conv2d and max_pool2d
tensor conv2d_max_pool(const tensor& x, const tensor& w, const tensor& b,
                       const conv_pool_options& options = {});

namespace ops {

extern const op conv2d_max_pool;

} // namespace ops

} // namespace troupe
