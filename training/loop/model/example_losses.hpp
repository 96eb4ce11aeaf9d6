#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"

#include <span>

namespace troupe {

/// Computes the loss of each example of a batch, times the weight of the
/// example. This weight is the element of the tensor "weights", if the batch
/// has one, times the weight of the class. Labels and weights are copied to the
/// device of the outputs, unless they are there.
/// @param by_class weights that `weights_of_classes` returns. Empty: 1.
/// @returns [n] float32
/// @errors throws std::logic_error with the shapes if the weights or the result
///         of the loss are not [n].
tensor example_losses(const models::loss& loss, const tensor& outputs,
                      const batch& rows, const tensor& by_class = {});

/// Returns for each example the weight of its class.
/// @param labels on the CPU.
/// @param class_weights by class number. Empty: the result is empty.
/// @errors throws std::logic_error that names a label without a weight.
tensor weights_of_classes(const tensor& labels,
                          std::span<const float> class_weights);

/// Checks the weights of the classes in a training loss.
/// @param classes number of classes of the training data.
/// @param weights Empty: there are none.
/// @errors throws std::invalid_argument if the loss compares no classes, or if
///         a weight is negative or not finite. Throws it if the list has
///         neither one weight for each class nor one for each output.
void check_class_weights(const models::loss& loss, const models::network& net,
                         std::int64_t classes, std::span<const float> weights);

/// True if these are weights of `rows` examples: [rows] or [rows, 1].
bool are_weights(const shape& weights, std::int64_t rows);

} // namespace troupe
