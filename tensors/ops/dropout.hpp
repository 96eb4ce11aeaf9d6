#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// In training, sets each element to zero with probability `rate` and
/// multiplies the others by 1 / (1 - rate). Otherwise returns `x`. The mask is
/// a function of the context's random key, whose op counter this call
/// increments. Therefore a repeated step has the same mask.
/// @param rate In [0, 1).
/// @param training In a layer: `scope.training()`.
/// @errors throws std::logic_error if the rate is out of range.
tensor dropout(const tensor& x, float rate, bool training);

namespace ops {

extern const op dropout;

} // namespace ops

} // namespace troupe
