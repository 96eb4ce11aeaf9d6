#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// Flattens each example to one axis.
/// @returns [elements of the input]
class flatten : public layer {
public:
  std::string_view type() const override { return "flatten"; }
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;
};

} // namespace troupe::models
