#pragma once

#include "troupe/tensors/tensor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A loss function. Training minimizes its mean over the examples.
struct loss {
  /// Name in `model_options` and saved models.
  std::string_view name;

  /// Computes the loss of each example.
  /// @shape outputs [n, ...], the output of a network
  /// @returns [n]
  /// @errors throws std::logic_error with the shapes.
  tensor (*compute)(const tensor& outputs, const tensor& targets);

  /// True: targets are labels, [n] int32, and outputs are scores, [n, classes],
  /// so that accuracy is defined. False: targets have the shape of the outputs.
  bool classifies;
};

/// The loss "softmax_cross_entropy". It is -log softmax(logits)[label] for each
/// example.
/// @shape logits [n, classes], scores before the softmax
/// @shape labels [n] int32
tensor cross_entropy(const tensor& logits, const tensor& labels);

/// The loss "mean_squared_error". It is the mean of (output - target)^2 over
/// the outputs of each example.
/// @shape targets the shape of `outputs`
tensor mean_squared_error(const tensor& outputs, const tensor& targets);

/// Finds a loss by name.
/// @errors throws std::invalid_argument with the known names.
const loss& find_loss(std::string_view name);

std::vector<std::string> loss_names();

} // namespace troupe::models
