#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe::models {

/// Fully connected layer: y = f(x kernel + bias), where f is the activation.
/// @shape input  [in]
/// @shape kernel [in, units]
/// @shape bias   [units]
/// @returns [units]
class dense : public layer {
public:
  dense() = default;
  explicit dense(std::int64_t units,
                 troupe::activation f = troupe::activation::none)
    : units{units}, activation{f} {}

  std::string_view type() const override { return "dense"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  std::int64_t units = 0;
  troupe::activation activation = troupe::activation::none;
  initializer kernel_initializer{"glorot_uniform"};
  initializer bias_initializer{"zeros"};
};

} // namespace troupe::models
