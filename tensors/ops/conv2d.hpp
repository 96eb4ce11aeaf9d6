#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe {

/// `same`: the result is [ceil(h / stride), ceil(w / stride)], zeros around the
/// image, the odd one at the bottom and right. `valid`: no zeros.
enum class padding : std::uint8_t { valid, same };

struct conv2d_options {
  std::int32_t stride_h = 1, stride_w = 1; ///< >= 1
  padding pad = padding::valid;
  activation f = activation::none;
};

/// y = f(x * w + b): cross-correlation, as every framework calls convolution.
/// @shape x  [n, h, w, ci]
/// @shape w  [kh, kw, ci, co]
/// @shape b  [co]
/// @returns [n, oh, ow, co]
/// @errors throws std::logic_error with the shapes; a window larger than the
///         image is one with `valid`.
/// @cost 2 n oh ow kh kw ci co flops forward, twice that backward; the gradient
///       of an input that nobody asks for is not computed.
tensor conv2d(const tensor& x, const tensor& w, const tensor& b,
              const conv2d_options& options = {});

namespace ops {

extern const op conv2d;

/// Where a window stands: extent of the result and zeros before the input.
struct window {
  std::int64_t out, before, after;
};

/// @pre `extent`, `size` and `stride` are at least 1.
/// `out` is 0 if the window does not fit.
constexpr window place_window(std::int64_t extent, std::int64_t size,
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
