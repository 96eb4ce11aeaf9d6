#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// max(x, 0), elementwise. The setting `activation` of dense and conv2d layers
/// is faster: it computes relu in the same pass as the layer.
class relu : public layer {
public:
  std::string_view type() const override { return "relu"; }
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;
};

} // namespace troupe::models
