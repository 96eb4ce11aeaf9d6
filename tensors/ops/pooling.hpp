#pragma once

#include "troupe/tensors/base/kernels.hpp"

namespace troupe::ops {

// The pooling kernels, which divide the images among the threads of the ops.
// Only sources of ops include this file.

/// Runs the kernel `max_pool`.
void max_pool(const pool_window& window, const float* x, float* out,
              std::uint8_t* indices);

/// Runs the kernel `max_pool_backward`.
void max_pool_backward(const pool_window& window, const float* grad_out,
                       const std::uint8_t* indices, float* grad_x,
                       bool accumulate);

} // namespace troupe::ops
