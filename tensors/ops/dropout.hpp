#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// Sets elements to zero with probability `rate` and multiplies the others by
/// 1 / (1 - rate), in training; else returns `x`. Which ones is a function of
/// the context's random key, whose op it counts up: a step that is redone drops
/// the same.
/// @param rate  in [0, 1)
/// @param training  in a layer: `own.training()`.
/// @errors throws std::logic_error if the rate is not in its range.
tensor dropout(const tensor& x, float rate, bool training);

namespace ops {

extern const op dropout;

} // namespace ops

} // namespace troupe
