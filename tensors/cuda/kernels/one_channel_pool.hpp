#pragma once

#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/ops/conv_geometry.hpp"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// A convolution of images of one channel and the pooling of its result, as one
// kernel. cuDNN computes such a convolution by a product with few terms, and
// its result has many times the size of the images and of the pooled result.
//
// All addresses are on the device. `type` is float32 or bfloat16; the kernels
// compute in float, and round a result once.

/// True for images of one channel whose rows are not too long, a step of 1, and
/// weights of 3 x 3 or 5 x 5. The pooling must have disjoint windows of 2 x 2
/// without padding.
bool has_one_channel_pool_kernel(const conv_geometry& conv,
                                 const pool_window& pool);

/// out = the maximum of `x * w + bias` in each window, then relu if `relu` is
/// true. `indices` receives the position of the maximum in its window, as
/// max_pool does.
/// @shape x        [n, h, w, 1]
/// @shape w        [k, k, 1, co]
/// @shape bias     [co]
/// @shape out      [n, out_height, out_width, co]
/// @shape indices  as out
/// @pre has_one_channel_pool_kernel(conv, pool)
cudaError_t one_channel_max_pool(const conv_geometry& conv,
                                 const pool_window& pool, dtype type,
                                 const void* x, const void* w, const void* bias,
                                 bool relu, void* out, std::uint8_t* indices,
                                 cudaStream_t stream);

/// Number of floats of the scratch of `one_channel_pool_gradients`.
std::size_t one_channel_pool_scratch(const conv_geometry& conv,
                                     const pool_window& pool);

/// gw, gb = the gradients of w and of the bias. The terms are added in an order
/// that depends on the shapes only.
/// @param grad_out of the shape of out.
/// @param relu_out the result `out` with relu. Null: there was no relu.
/// @pre has_one_channel_pool_kernel(conv, pool)
/// @cost one pass over `grad_out`, `relu_out` and `indices`, and 4 k k
///       multiplications for each of their elements.
cudaError_t one_channel_pool_gradients(
  const conv_geometry& conv, const pool_window& pool, dtype type, const void* x,
  const void* grad_out, const void* relu_out, const std::uint8_t* indices,
  float* scratch, void* gw, void* gb, cudaStream_t stream);

} // namespace troupe::cuda
