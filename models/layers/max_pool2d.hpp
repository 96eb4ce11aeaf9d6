#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/models/layers/extents.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe::models {

class max_pool2d_layer;

/// Settings of a layer that computes the maximum over each window, separately
/// for each channel.
/// @shape input [height, width, channels]
/// @returns [out height, out width, channels]. The rules for the extents are
///          the rules of conv2d.
struct max_pool2d {
  using layer_type = max_pool2d_layer;

  extents_2d window{2};
  extents_2d stride{}; ///< Zeros: the extents of the window.
  troupe::padding padding = troupe::padding::valid;
  std::string name{}; ///< As `layer::name`.
};

class max_pool2d_layer : public layer {
public:
  max_pool2d_layer() = default;
  explicit max_pool2d_layer(max_pool2d x)
    : layer{x.name}, settings{std::move(x)} {}

  std::string_view type() const override { return "max_pool2d"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  pool_options options() const; ///< Returns the options of the max_pool2d op.

  max_pool2d settings;
};

} // namespace troupe::models
