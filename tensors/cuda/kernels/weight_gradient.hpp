#pragma once

#include "troupe/tensors/ops/conv_geometry.hpp"

#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// The gradient of the weights of a convolution whose images have one channel.
// cuDNN computes it by a product that has a few columns and millions of rows.

/// True for images of one channel, a step of 1, and weights of 3 x 3 or 5 x 5.
bool has_one_channel_kernel(const conv_geometry& what);

/// Number of floats of the scratch of `one_channel_weight_gradient`.
std::size_t one_channel_scratch(const conv_geometry& what);

/// gw[kh, kw, 1, co] = the gradient of the weights, from the images
/// x[n, h, w, 1] and gy[n, oh, ow, co]. All are float32 and on the device. The
/// terms are added in an order that depends on the shapes only.
/// @pre has_one_channel_kernel(what)
/// @cost one pass over gy, and kh kw multiplications for each of its elements.
cudaError_t one_channel_weight_gradient(const conv_geometry& what,
                                        const float* x, const float* gy,
                                        float* scratch, float* gw,
                                        cudaStream_t stream);

} // namespace troupe::cuda
