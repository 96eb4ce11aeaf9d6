#pragma once

#include "troupe/tensors/tensor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// What training makes small.
struct loss {
  std::string_view name;

  /// @shape outputs  [n, ...], of a network
  /// @returns [n], the loss of each example
  /// @errors throws std::logic_error with the shapes.
  tensor (*of)(const tensor& outputs, const tensor& targets);

  /// Targets are labels, [n] int32, and outputs scores, [n, classes]: accuracy
  /// means something. Otherwise targets look like outputs.
  bool classifies;
};

/// -log softmax(logits)[label]; "softmax_cross_entropy".
/// @shape logits  [n, classes], not yet through a softmax
/// @shape labels  [n] int32
tensor cross_entropy(const tensor& logits, const tensor& labels);

/// Mean over an example's outputs of (output - target)^2;
/// "mean_squared_error".
/// @shape targets  that of outputs
tensor mean_squared_error(const tensor& outputs, const tensor& targets);

/// @errors throws std::invalid_argument with the names that would do.
const loss& find_loss(std::string_view name);

std::vector<std::string> loss_names();

} // namespace troupe::models
