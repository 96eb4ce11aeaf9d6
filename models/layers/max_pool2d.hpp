#pragma once

#include "troupe/models/layer.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

namespace troupe::models {

/// The largest value in each window, channel by channel.
/// @shape input [height, width, channels]
/// @returns as conv2d, with the channels of the input.
class max_pool2d : public layer {
public:
  max_pool2d() = default;
  explicit max_pool2d(std::int64_t window) : window{window, window} {}

  std::string_view type() const override { return "max_pool2d"; }
  void list(settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const place& own) const override;

  pool_options options() const; ///< Of the op.

  std::array<std::int64_t, 2> window{2, 2};
  std::array<std::int64_t, 2> stride{}; ///< Zeros: that of the window.
  troupe::padding padding = troupe::padding::valid;
};

} // namespace troupe::models
