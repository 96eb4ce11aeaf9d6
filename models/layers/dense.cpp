#include "troupe/models/layers/dense.hpp"

#include "troupe/models/layers/options.hpp"
#include "troupe/tensors/ops/dense.hpp"

namespace troupe::models {

void dense::visit_settings(layer_settings& s) {
  s.integer("units", units, {.required = true});
  s.choice("activation", activation, activation_names());
  s.initial("kernel_initializer", kernel_initializer);
  s.initial("bias_initializer", bias_initializer);
}

shape dense::build(const shape& input, builder& b) const {
  if (input.rank() != 1)
    b.refuse("takes examples of one axis, but its input is " + to_string(input)
             + "; put a \"flatten\" before it");
  b.parameter("kernel", {input[0], units}, kernel_initializer);
  b.parameter("bias", {units}, bias_initializer);
  return {units};
}

tensor dense::forward(const tensor& x, const layer_scope& scope) const {
  return troupe::dense(x, scope[0], scope[1], activation);
}

} // namespace troupe::models
