#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// In training, sets each element to zero with probability `rate` and
/// multiplies all other elements by 1 / (1 - rate). Outside training, returns
/// its input.
class dropout : public layer {
public:
  dropout() = default;
  explicit dropout(double rate) : rate{rate} {}

  std::string_view type() const override { return "dropout"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  double rate = 0; ///< In [0, 1).
};

} // namespace troupe::models
