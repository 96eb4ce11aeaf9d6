#pragma once

#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe::ops {

// Extents of a convolution and a pooling for the kernels. Only sources of ops
// include this file.

onednn::convolution geometry(const shape& x, const shape& w,
                             const conv2d_options& o);
pool_window geometry(const shape& x, const pool_options& o);

} // namespace troupe::ops
