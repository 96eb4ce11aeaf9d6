#pragma once

#include <cstdint>

namespace troupe {

/// Extents of a convolution of images [n, h, w, ci] and weights [kh, kw, ci,
/// co]. The result is [n, oh, ow, co].
struct conv_geometry {
  std::int64_t n = 0, h = 0, w = 0, ci = 0, co = 0, kh = 0, kw = 0, oh = 0,
               ow = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0; ///< Padding.

  bool operator==(const conv_geometry&) const = default;
};

} // namespace troupe
