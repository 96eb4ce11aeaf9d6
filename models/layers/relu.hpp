#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// Computes max(x, 0) elementwise. The setting `activation` of dense and conv2d
/// layers is faster, because the layer then computes relu in the same pass.
class relu : public layer {
public:
  std::string_view type() const override { return "relu"; }
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;
};

} // namespace troupe::models
