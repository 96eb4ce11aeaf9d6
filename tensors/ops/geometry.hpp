#pragma once

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/ops/conv_geometry.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe::ops {

// These functions compute the extents of a convolution or a pooling in the form
// that kernels take. Only sources of ops include this file.

conv_geometry geometry(const shape& x, const shape& w, const conv2d_options& o);
pool_window geometry(const shape& x, const pool_options& o);

} // namespace troupe::ops
