#include "troupe/models/layers/max_pool2d.hpp"

#include "troupe/models/layers/options.hpp"
#include "troupe/models/layers/window.hpp"

namespace troupe::models {

namespace {

using extents = std::array<std::int64_t, 2>;

/// The limit exists because the op stores the index of the maximum within the
/// window in one byte.
constexpr std::int64_t max_window_elements = 256;

extents stride_of(const max_pool2d& x) {
  return x.stride == extents{} ? x.window : x.stride;
}

} // namespace

void max_pool2d_layer::visit_settings(layer_settings& s) {
  s.pair("window", settings.window);
  settings.stride = stride_of(settings);
  s.pair("stride", settings.stride);
  s.choice("padding", settings.padding, padding_names());
}

shape max_pool2d_layer::build(const shape& input, builder& b) const {
  if (settings.window[0] * settings.window[1] > max_window_elements)
    b.refuse("has a window of "
             + to_string(shape{settings.window[0], settings.window[1]})
             + ", but at most " + std::to_string(max_window_elements)
             + " elements are allowed; make it smaller");
  const auto [height, width] = window_positions(
    input, settings.window, stride_of(settings), settings.padding, b);
  return {height, width, input[2]};
}

tensor max_pool2d_layer::forward(const tensor& x, const layer_scope&) const {
  return troupe::max_pool2d(x, options());
}

pool_options max_pool2d_layer::options() const {
  const auto steps = stride_of(settings);
  return {.window_h = static_cast<std::int32_t>(settings.window[0]),
          .window_w = static_cast<std::int32_t>(settings.window[1]),
          .stride_h = static_cast<std::int32_t>(steps[0]),
          .stride_w = static_cast<std::int32_t>(steps[1]),
          .pad = settings.padding};
}

} // namespace troupe::models
