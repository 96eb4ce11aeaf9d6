#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe::models {

/// Computes the maximum over each window, separately for each channel.
/// @shape input [height, width, channels]
/// @returns [out height, out width, channels]. The rules for the extents are
///          the rules of conv2d.
class max_pool2d : public layer {
public:
  max_pool2d() = default;
  explicit max_pool2d(std::int64_t window) : window{window, window} {}

  std::string_view type() const override { return "max_pool2d"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  pool_options options() const; ///< Returns the options of the max_pool2d op.

  std::array<std::int64_t, 2> window{2, 2};
  std::array<std::int64_t, 2> stride{}; ///< Zeros: the extents of the window.
  troupe::padding padding = troupe::padding::valid;
};

} // namespace troupe::models
