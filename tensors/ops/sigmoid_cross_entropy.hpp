#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// Computes -(z log p + (1 - z) log(1 - p)) with p = sigmoid(x) for each score
/// x and target z. Computes the gradient in the same pass. It is evaluated as
/// max(x, 0) - x z + log(1 + exp(-|x|)), which does not overflow.
/// @shape logits  float32, float64 or bfloat16, scores before the sigmoid
/// @shape targets  shape and dtype of `logits`, usually in [0, 1]; without
///        gradient
/// @returns the shape of `logits`; the logarithm is natural
/// @errors throws std::logic_error with the shapes.
tensor sigmoid_cross_entropy(const tensor& logits, const tensor& targets);

namespace ops {

extern const op sigmoid_cross_entropy;

} // namespace ops

} // namespace troupe
