#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/models/layers/extents.hpp"
#include "troupe/tensors/ops/conv2d.hpp"

namespace troupe::models {

class conv2d_layer;

/// Settings of a convolution layer for images: y = f(x * kernel + bias), where
/// * is the convolution and f is the activation.
/// @shape input  [height, width, channels]
/// @shape kernel [window height, window width, channels, filters]
/// @shape bias   [filters]
/// @returns [out height, out width, filters]. With padding `same`, out height
///          is height / stride, rounded up. With `valid`, out height is the
///          number of vertical positions at which the whole window lies in the
///          image. The same rules apply to the width.
struct conv2d {
  using layer_type = conv2d_layer;

  std::int64_t filters = 0;
  extents_2d kernel{}; ///< Height and width of the window.
  troupe::padding padding = troupe::padding::valid;
  troupe::activation activation = troupe::activation::none;
  extents_2d stride{1};
  initializer kernel_initializer{"glorot_uniform"};
  initializer bias_initializer{"zeros"};
  std::string name{}; ///< As `layer::name`.
};

class conv2d_layer : public layer {
public:
  conv2d_layer() = default;
  explicit conv2d_layer(conv2d x) : layer{x.name}, settings{std::move(x)} {}

  std::string_view type() const override { return "conv2d"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  conv2d_options options() const; ///< Returns the options of the conv2d op.

  conv2d settings;
};

} // namespace troupe::models
