#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// max(x, 0), elementwise. For dense and conv2d layers, their `activation`
/// setting computes it in one pass.
class relu : public layer {
public:
  std::string_view type() const override { return "relu"; }
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const place& own) const override;
};

} // namespace troupe::models
