#include "troupe/models/layers/conv2d.hpp"

#include "troupe/models/layers/options.hpp"
#include "troupe/models/layers/window.hpp"

namespace troupe::models {

void conv2d_layer::visit_settings(layer_settings& s) {
  s.integer("filters", settings.filters, {.required = true});
  s.pair("kernel", settings.kernel, {.required = true});
  s.pair("stride", settings.stride);
  s.choice("padding", settings.padding, padding_names());
  s.choice("activation", settings.activation, activation_names());
  s.initial("kernel_initializer", settings.kernel_initializer);
  s.initial("bias_initializer", settings.bias_initializer);
}

shape conv2d_layer::build(const shape& input, builder& b) const {
  const auto [height, width] = window_positions(
    input, settings.kernel, settings.stride, settings.padding, b);
  b.parameter(
    "kernel",
    {settings.kernel[0], settings.kernel[1], input[2], settings.filters},
    settings.kernel_initializer);
  b.parameter("bias", {settings.filters}, settings.bias_initializer);
  return {height, width, settings.filters};
}

tensor conv2d_layer::forward(const tensor& x, const layer_scope& scope) const {
  return troupe::conv2d(x, scope[0], scope[1], options());
}

conv2d_options conv2d_layer::options() const {
  return {.stride_h = static_cast<std::int32_t>(settings.stride[0]),
          .stride_w = static_cast<std::int32_t>(settings.stride[1]),
          .pad = settings.padding,
          .f = settings.activation};
}

} // namespace troupe::models
