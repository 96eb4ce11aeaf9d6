#pragma once

#include "troupe/tensors/op.hpp"

namespace troupe {

/// -log softmax(logits)[label] of each row, computed together with its
/// gradient.
/// @shape logits  [n, classes] float32 or float64
/// @shape labels  [n] int32, each in [0, classes)
/// @returns [n], natural logarithm
/// @errors throws std::logic_error with the shapes, or with the row and the
///         label that is out of range.
tensor softmax_cross_entropy(const tensor& logits, const tensor& labels);

/// Softmax of each row.
/// @shape x  [n, classes]
tensor softmax(const tensor& x);

namespace ops {

extern const op softmax_cross_entropy, softmax;

} // namespace ops

} // namespace troupe
