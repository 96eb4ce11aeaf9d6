#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/activation.hpp"

namespace troupe::models {

class dense_layer;

/// Settings of a fully connected layer: y = f(x kernel + bias), where f is the
/// activation.
/// @shape input  [in]
/// @shape kernel [in, units]
/// @shape bias   [units]
/// @returns [units]
struct dense {
  using layer_type = dense_layer;

  std::int64_t units = 0;
  troupe::activation activation = troupe::activation::none;
  initializer kernel_initializer{"glorot_uniform"};
  initializer bias_initializer{"zeros"};
  std::string name{}; ///< As `layer::name`.
};

class dense_layer : public layer {
public:
  dense_layer() = default;
  explicit dense_layer(dense x) : layer{x.name}, settings{std::move(x)} {}

  std::string_view type() const override { return "dense"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  dense settings;
};

} // namespace troupe::models
