#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

/// In training sets a share of the elements to zero and scales the others by
/// 1 / (1 - rate); elsewhere does nothing.
class dropout : public layer {
public:
  dropout() = default;
  explicit dropout(double rate) : rate{rate} {}

  std::string_view type() const override { return "dropout"; }
  void list(settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const place& own) const override;

  double rate = 0; ///< In [0, 1).
};

} // namespace troupe::models
