#pragma once

#include "troupe/tensors/base/kernels.hpp"

#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// Max-pooling of images in planes, [count, channels, height, width] of float,
// whose results have contiguous channels. So a convolution that computes in
// planes needs no transposition of its result.
//
// All addresses are on the device, and all functions return when the work is in
// the stream.

/// True for windows of 2 x 2 that cover the images exactly once.
bool has_plane_kernel(const pool_window& window);

/// out = maximum of `x + bias` in each window, then relu if `relu` is true. If
/// a window contains a NaN, `indices` receives the position of its first NaN.
/// @shape x        [count, channels, height, width]
/// @shape bias     [channels]
/// @shape out      [count, out_height, out_width, channels]
/// @shape indices  as out
/// @pre has_plane_kernel(window)
cudaError_t bias_max_pool_planes(const pool_window& window, const float* x,
                                 const float* bias, bool relu, float* out,
                                 std::uint8_t* indices, cudaStream_t stream);

/// Writes the gradient of `bias_max_pool_planes` without relu to all of grad_x.
/// @shape grad_out  as out
/// @shape grad_x    as x
/// @pre has_plane_kernel(window)
cudaError_t max_pool_planes_backward(const pool_window& window,
                                     const float* grad_out,
                                     const std::uint8_t* indices, float* grad_x,
                                     cudaStream_t stream);

} // namespace troupe::cuda
