#pragma once

#include "troupe/tensors/base/dtype.hpp"

#include <cstddef>
#include <cuda_runtime_api.h>

namespace troupe::cuda {

// What surrounds the products of a convolution on a CUDA device. All addresses
// are on the device, and all functions return when the work is in the stream.
// `type` is float32 or bfloat16; for another one the result is
// cudaErrorInvalidValue.

/// out[count, columns, rows] = the transposes of x[count, rows, columns]
cudaError_t transpose(dtype type, const void* x, void* out, std::size_t count,
                      std::size_t rows, std::size_t columns,
                      cudaStream_t stream);

/// Extents of images [n, height, width, channels].
struct image_extents {
  std::size_t height, width;
};

/// Copies n images to images of other extents. Both have one top left corner.
/// Where `out` is larger, it gets zeros at the bottom and at the right. Where
/// it is smaller, the rest of `x` is not read.
cudaError_t fit_images(dtype type, const void* x, image_extents from, void* out,
                       image_extents to, std::size_t n, std::size_t channels,
                       cudaStream_t stream);

} // namespace troupe::cuda
