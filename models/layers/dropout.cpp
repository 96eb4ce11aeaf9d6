#include "troupe/models/layers/dropout.hpp"

#include "troupe/tensors/ops/dropout.hpp"

#include <algorithm>

namespace troupe::models {

void dropout_layer::visit_settings(layer_settings& s) {
  s.real("rate", settings.rate, {.required = true, .low = 0, .below = 1});
}

shape dropout_layer::build(const shape& input, builder&) const {
  return input;
}

tensor dropout_layer::forward(const tensor& x, const layer_scope& scope) const {
  // A rate just below 1 must not be rounded to the float 1.
  return troupe::dropout(
    x, std::min(static_cast<float>(settings.rate), 0x1.fffffep-1f),
    scope.training());
}

} // namespace troupe::models
