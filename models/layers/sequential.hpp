#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// Runs layers in sequence: each layer takes the output of the previous layer.
class sequential : public layer {
public:
  sequential() = default;
  explicit sequential(layer_list layers) : layers{std::move(layers)} {}

  std::string_view type() const override { return "sequential"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  layer_list layers;
};

} // namespace troupe::models
