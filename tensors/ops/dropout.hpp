#pragma once

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/op.hpp"

namespace troupe {

/// In training, sets each element to zero with probability `rate` and
/// multiplies the other elements by 1 / (1 - rate). If `training` is false,
/// returns `x`. The mask depends only on the context's random key; this call
/// increments the key's op counter. Therefore a repeated step has the same
/// mask.
/// @param rate In [0, 1).
/// @param training In a layer: `scope.training()`.
/// @errors throws std::logic_error if the rate is out of range.
tensor dropout(const tensor& x, float rate, bool training);

namespace ops {

/// Rate of a `dropout`, and the key of the random numbers of its mask.
struct dropped {
  float rate = 0;
  random_key key;
};

extern const op dropout; ///< Options: `dropped`.

} // namespace ops

} // namespace troupe
