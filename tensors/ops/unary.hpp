#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

// Elementwise ops on one tensor.
// @shape x  any, float32 or float64.

tensor relu(const tensor& x);    ///< x > 0 ? x : 0; NaN stays NaN.
tensor sigmoid(const tensor& x); ///< 1 / (1 + exp(-x))
tensor tanh(const tensor& x);
tensor exp(const tensor& x);
tensor log(const tensor& x); ///< Natural logarithm; NaN below 0, -inf at 0.
tensor sqrt(const tensor& x);
tensor square(const tensor& x);
tensor negate(const tensor& x);

namespace ops {

extern const op relu, sigmoid, tanh, exp, log, sqrt, square, negate;

} // namespace ops

} // namespace troupe
