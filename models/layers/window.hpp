#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/conv2d.hpp"

#include <array>

namespace troupe::models {

/// Returns the number of window positions along height and width.
/// @shape input [height, width, channels]
/// @errors throws by `builder::refuse` if the input is not an image, or the
///         window is larger than the input.
inline std::array<std::int64_t, 2>
window_positions(const shape& input, const std::array<std::int64_t, 2>& window,
                 const std::array<std::int64_t, 2>& stride, padding pad,
                 const builder& b) {
  if (input.rank() != 3)
    b.refuse(
      "takes images of shape [height, width, channels], but its input is "
      + to_string(input) + "; put it before any \"flatten\"");
  std::array<std::int64_t, 2> out{};
  for (std::size_t i = 0; i < 2; ++i)
    out[i] = ops::fit_window(input[i], window[i], stride[i], pad).out;
  if (out[0] < 1 || out[1] < 1)
    b.refuse("has a window of " + to_string(shape{window[0], window[1]})
             + ", which does not fit into " + to_string(input)
             + "; make it smaller or the padding \"same\"");
  return out;
}

} // namespace troupe::models
