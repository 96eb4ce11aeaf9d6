#pragma once

#include "troupe/tensors/cuda/cudnn/convolution_plan.hpp"
#include "troupe/tensors/ops/conv_geometry.hpp"
#include "troupe/tensors/tensor.hpp"

namespace troupe::cuda {

// Products of convolutions by cuDNN. Operands are float32 or bfloat16, sums are
// float32. The results are float32 or have the dtype of the operands, and are
// rounded once. A repeated call gives the same bits: engines whose results
// change from call to call are not used. Neither are those that cuDNN marks as
// Winograd's algorithm, and TF32 for float32 unless `context::allows_tf32`.
//
// All tensors are on one CUDA device. The functions return when the work is in
// the stream of the device, and are thread-safe. The first call for a shape
// chooses an engine, which takes milliseconds to seconds; the choice is kept as
// long as the process runs. Operands in bfloat16 are converted to float32 if
// there is no engine for them, which is so for few channels.
//
// All functions throw device_error if cuDNN is missing, fails, or has no engine
// for the shape that needs at most 512 MiB of memory.

// With `image_layout::planes`, the elements of x, y and their gradients are in
// the order [n, channels, h, w]. The shapes of the tensors are not used. cuDNN
// computes float32 without TF32 in this order, and transposes others.

/// y = x * w
/// @shape x  [n, h, w, ci]
/// @shape w  [kh, kw, ci, co], of the dtype of x
/// @shape y  [n, oh, ow, co]
void convolve(const conv_geometry& what, const tensor& x, const tensor& w,
              tensor& y, image_layout layout = image_layout::channels_last);

/// gx = gradient of x, which is zero where no window reads x.
/// @shape gy  as y
/// @shape gx  as x
void convolve_backward_data(const conv_geometry& what, const tensor& gy,
                            const tensor& w, tensor& gx,
                            image_layout layout = image_layout::channels_last);

/// gw = gradient of w, which is zero for no images.
/// @shape gw  as w
void convolve_backward_weights(
  const conv_geometry& what, const tensor& x, const tensor& gy, tensor& gw,
  image_layout layout = image_layout::channels_last);

/// Returns images [n, h, w, c] in planes, as a tensor of the same shape.
tensor to_planes(const tensor& images);
/// Writes images that are in planes as [n, h, w, c].
void from_planes(const tensor& planes, tensor& images);

} // namespace troupe::cuda
