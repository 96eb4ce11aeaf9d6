#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// What a loss compares the outputs of a network with.
enum class target_kind : std::uint8_t {
  classes, ///< Class numbers, int32[n]; the outputs are scores, [n, classes].
  values,  ///< Values of the shape of the outputs, of any dtype.
  any,     ///< Labels of any shape and dtype, or an empty tensor: no labels.
};

/// A loss function. Training minimizes its mean over the examples.
struct loss {
  /// Name in `model_options` and saved models: 1 to 64 letters, digits, `_`,
  /// `-` and `.`.
  std::string name;

  /// What the loss needs as `targets`.
  target_kind targets = target_kind::any;

  /// Computes the loss of each example. A tape records the computation, so it
  /// consists of ops. `fit` calls it from several threads.
  /// @param outputs [n, ...], the output of a network, n > 0
  /// @param targets the labels of these examples. With `target_kind::values`
  ///        they have the shape of the outputs: [n] or [n, 1], whichever the
  ///        labels of the data have.
  /// @returns [n] float32
  std::function<tensor(const tensor& outputs, const tensor& targets)> compute =
    {};
};

/// The loss "softmax_cross_entropy". It is -log softmax(logits)[label] for each
/// example.
/// @shape logits [n, classes], scores before the softmax
/// @shape labels [n] int32
tensor cross_entropy(const tensor& logits, const tensor& labels);

/// The loss "mean_squared_error". It is the mean of (output - target)^2 over
/// the outputs of each example.
/// @shape targets the shape of `outputs`, of any dtype. [n] and [n, 1] fit each
///        other.
/// @errors throws std::logic_error with the shapes.
tensor mean_squared_error(const tensor& outputs, const tensor& targets);

/// The loss "mean_absolute_error". It is the mean of |output - target| over the
/// outputs of each example.
/// @shape and @errors as `mean_squared_error`.
tensor mean_absolute_error(const tensor& outputs, const tensor& targets);

/// The loss "binary_cross_entropy". It is the mean of
/// -(target log p + (1 - target) log(1 - p)) over the outputs of each example,
/// with p = sigmoid(output). `sigmoid` converts outputs to probabilities.
/// @shape targets in [0, 1], usually 0 or 1; shapes as `mean_squared_error`.
/// @errors as `mean_squared_error`.
tensor binary_cross_entropy(const tensor& logits, const tensor& targets);

/// True if labels of this shape fit outputs of this shape in a loss whose
/// targets are `target_kind::values`.
/// @shape outputs and labels with their batch axis
bool are_comparable(const shape& outputs, const shape& labels);

/// Makes a loss known by its name, to `model_options` and to saved models. Each
/// program that uses a saved model must register the model's loss first.
/// @errors throws std::logic_error for an invalid name, a name that is
///         registered already, and a loss without `compute`.
void register_loss(loss own);

/// Finds a loss by name. The result is valid until the program ends.
/// @errors throws std::invalid_argument with the known names.
const loss& find_loss(std::string_view name);

std::vector<std::string> loss_names();

/// Returns labels in the shape of the outputs if one of them is [n] and the
/// other [n, 1]. A difference of these two shapes would broadcast to [n, n].
/// All other labels are returned unchanged.
tensor shaped_as(const tensor& outputs, const tensor& labels);

/// Computes the loss of each example, and checks the result.
/// @errors throws std::logic_error if the loss compares values, and the targets
///         do not fit the outputs (`are_comparable`); also if the result is not
///         float32[n]. Throws the exceptions of the loss.
tensor compute_losses(const loss& function, const tensor& outputs,
                      const tensor& targets);

} // namespace troupe::models
