#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/models/losses.hpp"

#include <span>

namespace troupe {

/// Computes the loss of each example of a batch, times the weight of the
/// example: its element of the tensor "weights", if the batch has one, times
/// the weight of its class. Labels and weights are copied to the device of the
/// outputs.
/// @param rows on the CPU.
/// @param class_weights By class number. Empty: each class has the weight 1.
/// @returns [n] float32
/// @errors throws std::logic_error with the shapes if the weights or the result
///         of the loss are not [n].
tensor example_losses(const models::loss& loss, const tensor& outputs,
                      const batch& rows,
                      std::span<const float> class_weights = {});

/// True if these are weights of `rows` examples: [rows] or [rows, 1].
bool are_weights(const shape& weights, std::int64_t rows);

} // namespace troupe
