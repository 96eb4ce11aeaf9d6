#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe {

/// `same`: the result is [ceil(h / stride), ceil(w / stride)]. The image is
/// padded with zeros. If their number along an axis is odd, the bottom or right
/// gets one more than the top or left. `valid`: no padding.
enum class padding : std::uint8_t { valid, same };

struct conv2d_options {
  std::int32_t stride_h = 1, stride_w = 1; ///< >= 1
  padding pad = padding::valid;
  activation f = activation::none;
};

/// y = f(x * w + b), where * is cross-correlation.
/// @shape x  [n, h, w, ci]
/// @shape w  [kh, kw, ci, co]
/// @shape b  [co]
/// @returns [n, oh, ow, co]
/// @errors throws std::logic_error that names the shapes if they do not match,
///         or if an extent (except n) or a stride is not positive. Throws it
///         too if a `valid` padding has a window that is larger than the image.
/// @cost 2 n oh ow kh kw ci co flops forward, and twice as many backward.
///       Gradients of inputs are computed only if they are requested.
tensor conv2d(const tensor& x, const tensor& w, const tensor& b,
              const conv2d_options& options = {});

namespace ops {

extern const op conv2d;

/// Extent of the result along one axis, and padding before and after the input.
struct window {
  std::int64_t out, before, after;
};

/// Computes the extents along one axis. `out`, the number of window positions,
/// is 0 if the window does not fit.
/// @pre `extent`, `size` and `stride` are at least 1.
constexpr window fit_window(std::int64_t extent, std::int64_t size,
                            std::int64_t stride, padding pad) {
  if (pad == padding::valid)
    return {extent < size ? 0 : (extent - size) / stride + 1, 0, 0};
  const auto out = (extent + stride - 1) / stride;
  const auto around = (out - 1) * stride + size - extent;
  const auto zeros = around > 0 ? around : 0;
  return {out, zeros / 2, zeros - zeros / 2};
}

} // namespace ops

} // namespace troupe
