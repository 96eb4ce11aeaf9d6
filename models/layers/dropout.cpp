#include "troupe/models/layers/dropout.hpp"

#include "troupe/tensors/ops/dropout.hpp"

#include <algorithm>

namespace troupe::models {

void dropout::visit_settings(layer_settings& s) {
  s.real("rate", rate, {.required = true, .low = 0, .below = 1});
}

shape dropout::build(const shape& input, builder&) const {
  return input;
}

tensor dropout::forward(const tensor& x, const layer_scope& scope) const {
  // A rate just below 1 must not be rounded to the float 1.
  return troupe::dropout(x, std::min(static_cast<float>(rate), 0x1.fffffep-1f),
                         scope.training());
}

} // namespace troupe::models
