#include "troupe/models/layers/dense.hpp"

#include "troupe/models/layers/options.hpp"
#include "troupe/tensors/ops/dense.hpp"

namespace troupe::models {

void dense_layer::visit_settings(layer_settings& s) {
  s.integer("units", settings.units, {.required = true});
  s.choice("activation", settings.activation, activation_names());
  s.initial("kernel_initializer", settings.kernel_initializer);
  s.initial("bias_initializer", settings.bias_initializer);
}

shape dense_layer::build(const shape& input, builder& b) const {
  if (input.rank() != 1)
    b.refuse("takes examples of one axis, but its input is " + to_string(input)
             + "; put a \"flatten\" before it");
  b.parameter("kernel", {input[0], settings.units},
              settings.kernel_initializer);
  b.parameter("bias", {settings.units}, settings.bias_initializer);
  return {settings.units};
}

tensor dense_layer::forward(const tensor& x, const layer_scope& scope) const {
  return troupe::dense(x, scope[0], scope[1], settings.activation);
}

} // namespace troupe::models
