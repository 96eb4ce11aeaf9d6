#include "troupe/models/layers/conv2d.hpp"

#include "troupe/models/layers/options.hpp"
#include "troupe/models/layers/window.hpp"

namespace troupe::models {

void conv2d::visit_settings(layer_settings& s) {
  s.integer("filters", filters, {.required = true});
  s.pair("kernel", kernel, {.required = true});
  s.pair("stride", stride);
  s.choice("padding", padding, padding_names());
  s.choice("activation", activation, activation_names());
  s.initial("kernel_initializer", kernel_initializer);
  s.initial("bias_initializer", bias_initializer);
}

shape conv2d::build(const shape& input, builder& b) const {
  const auto [height, width] =
    window_positions(input, kernel, stride, padding, b);
  b.parameter("kernel", {kernel[0], kernel[1], input[2], filters},
              kernel_initializer);
  b.parameter("bias", {filters}, bias_initializer);
  return {height, width, filters};
}

tensor conv2d::forward(const tensor& x, const layer_scope& scope) const {
  return troupe::conv2d(x, scope[0], scope[1], options());
}

conv2d_options conv2d::options() const {
  return {.stride_h = static_cast<std::int32_t>(stride[0]),
          .stride_w = static_cast<std::int32_t>(stride[1]),
          .pad = padding,
          .f = activation};
}

} // namespace troupe::models
