#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// Computes -log softmax(logits)[label] of each row, and its gradient in the
/// same pass.
/// @shape logits  [n, classes] float32 or float64
/// @shape labels  [n] int32, each in [0, classes)
/// @returns [n]; the logarithm is natural
/// @errors throws std::logic_error with the shapes, or with the row and the
///         label that is out of range.
tensor softmax_cross_entropy(const tensor& logits, const tensor& labels);

/// Computes the softmax of each row.
/// @shape x  [n, classes]
tensor softmax(const tensor& x);

namespace ops {

extern const op softmax_cross_entropy, softmax;

} // namespace ops

} // namespace troupe
