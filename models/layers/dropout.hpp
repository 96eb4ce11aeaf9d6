#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

class dropout_layer;

/// Settings of a layer that drops elements. In training each element is set to
/// zero with probability `rate`, and all others are multiplied by 1 / (1 -
/// rate). Outside training, it returns its input.
struct dropout {
  using layer_type = dropout_layer;

  double rate = 0;    ///< In [0, 1).
  std::string name{}; ///< As `layer::name`.
};

class dropout_layer : public layer {
public:
  dropout_layer() = default;
  explicit dropout_layer(dropout x) : layer{x.name}, settings{std::move(x)} {}

  std::string_view type() const override { return "dropout"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  dropout settings;
};

} // namespace troupe::models
