#pragma once

#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/base/kernels.hpp"

#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// Max-pooling on a CUDA device. All addresses are on the device, and all
// functions return when the work is in the stream. They return
// cudaErrorInvalidValue for other dtypes than the float types, and if images
// have 2^31 or more rows or elements in a row.

/// out = maximum of each window, as the kernel `max_pool` of the CPU. If a
/// window contains a NaN, `indices` receives the position of its first NaN.
/// @shape x        [count, height, width, channels] of `type`
/// @shape out      [count, out_height, out_width, channels] of `type`
/// @shape indices  as out
cudaError_t max_pool(const pool_window& window, dtype type, const void* x,
                     void* out, std::uint8_t* indices, cudaStream_t stream);

/// out = maximum of `x + bias` in each window, then relu if `relu` is true.
/// Numbers are float, and results are rounded once.
/// @param type float32 or bfloat16.
/// @shape x     as for `max_pool`, of float
/// @shape bias  [channels] of `type`
/// @shape out   as for `max_pool`, of `type`
cudaError_t bias_max_pool(const pool_window& window, dtype type, const float* x,
                          const void* bias, bool relu, void* out,
                          std::uint8_t* indices, cudaStream_t stream);

/// Writes the gradient of `max_pool` to all of `grad_x`, or adds it if
/// `accumulate`. An element adds the gradients of its windows in ascending
/// order, as the CPU does, and is rounded once.
/// @shape grad_out  as out
/// @shape grad_x    as x
cudaError_t max_pool_backward(const pool_window& window, dtype type,
                              const void* grad_out, const std::uint8_t* indices,
                              void* grad_x, bool accumulate,
                              cudaStream_t stream);

} // namespace troupe::cuda
