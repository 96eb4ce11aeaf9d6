#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/conv2d.hpp"

namespace troupe::models {

/// Convolution layer for images: y = f(x * kernel + bias), where * is the
/// convolution and f is the activation.
/// @shape input  [height, width, channels]
/// @shape kernel [window height, window width, channels, filters]
/// @shape bias   [filters]
/// @returns [out height, out width, filters]. With padding `same`, out height
///          is height / stride, rounded up. With `valid`, out height is the
///          number of vertical positions at which the whole window lies in the
///          image. The same rules apply to the width.
class conv2d : public layer {
public:
  conv2d() = default;
  conv2d(std::int64_t filters, std::int64_t window,
         troupe::padding pad = troupe::padding::valid,
         troupe::activation f = troupe::activation::none)
    : filters{filters}, kernel{window, window}, padding{pad}, activation{f} {}

  std::string_view type() const override { return "conv2d"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  conv2d_options options() const; ///< Returns the options of the conv2d op.

  std::int64_t filters = 0;
  std::array<std::int64_t, 2> kernel{}; ///< Height and width of the window.
  std::array<std::int64_t, 2> stride{1, 1};
  troupe::padding padding = troupe::padding::valid;
  troupe::activation activation = troupe::activation::none;
  initializer kernel_initializer{"glorot_uniform"};
  initializer bias_initializer{"zeros"};
};

} // namespace troupe::models
