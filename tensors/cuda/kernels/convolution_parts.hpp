#pragma once

#include "troupe/tensors/dtype.hpp"

#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// What surrounds the products of a convolution on a CUDA device. All addresses
// are on the device, and all functions return when the work is in the stream.
// `type` is float32 or bfloat16; for another one the result is
// cudaErrorInvalidValue. Sums and products are float.

/// out[columns, rows] = the transpose of x[rows, columns]
cudaError_t transpose(dtype type, const void* x, void* out, std::size_t rows,
                      std::size_t columns, cudaStream_t stream);

/// Extents of images [n, height, width, channels].
struct image_extents {
  std::size_t height, width;
};

/// Copies n images to images of other extents. Both have one top left corner:
/// where `out` is larger, it gets zeros at the bottom and at the right; where
/// it is smaller, the rest of `x` is not read.
cudaError_t fit_images(dtype type, const void* x, image_extents from, void* out,
                       image_extents to, std::size_t n, std::size_t channels,
                       cudaStream_t stream);

/// y[pixels, channels] = x + bias[channels], then relu if `relu` is true.
/// @param x products of the convolution, in float. May be y.
cudaError_t add_channel_bias(dtype type, const float* x, const void* bias,
                             bool relu, void* y, std::size_t pixels,
                             std::size_t channels, cudaStream_t stream);

/// g = y > 0 ? g : 0, where y is relu's output.
cudaError_t mask_by_relu(dtype type, void* g, const void* y, std::size_t n,
                         cudaStream_t stream);

/// Number of floats that `sum_channels` needs.
std::size_t channel_sums_workspace(std::size_t pixels, std::size_t channels);

/// sums[channels] = column sums of g[pixels, channels]; += instead of = if
/// `accumulate`. Adds in the order of the kernel `column_sums` of the CPU, in
/// float, and rounds each result once.
/// @param y Not null: calls `mask_by_relu(g, y)` first, in the same pass.
/// @param workspace `channel_sums_workspace(pixels, channels)` floats.
cudaError_t sum_channels(dtype type, void* g, const void* y, std::size_t pixels,
                         std::size_t channels, float* workspace, void* sums,
                         bool accumulate, cudaStream_t stream);

} // namespace troupe::cuda
