#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

// Functions that compute counts and sums over a batch. The counts and sums of
// several replicas can be added. The caller then divides by the total number of
// examples. Tensors on another device are copied to the CPU first.

namespace troupe::models {

/// A metric of outputs and labels that can be added over batches and replicas.
/// It consists of sums over the examples, and of a value that is computed from
/// the total sums.
struct metric {
  /// Name in histories and summaries.
  std::string name;

  /// Number of sums.
  std::size_t sums = 2;

  /// Adds the examples of a batch to the sums, which begin with 0. `fit` calls
  /// it from several threads, after the step's forward pass. No tape records.
  /// All tensors are on the CPU, also if the model is on another device.
  /// @param outputs [n, ...], the output of a network, n > 0
  /// @param labels the labels of these examples. If the outputs are [n, 1] and
  ///        the labels of the data [n], or the reverse, they have the shape of
  ///        the outputs.
  /// @param sums `metric::sums` numbers
  std::function<void(const tensor& outputs, const tensor& labels,
                     std::span<double> sums)>
    add = {};

  /// Computes the value from the sums over all examples. Empty: the quotient of
  /// the first sum and the second one, which is then a count.
  std::function<double(std::span<const double> sums)> value = {};

  /// True: a larger value is better, as of an accuracy. False: a smaller one is
  /// better, as of an error. None: not known; `early_stopping::mode` says it.
  std::optional<bool> larger_is_better = {};
};

/// The metric "accuracy": the fraction of examples that `correct` counts.
metric accuracy_metric();

/// The metric "mean_absolute_error": the mean of |output - label|.
metric mean_absolute_error_metric();

/// The metric "root_mean_squared_error": the root of the mean of
/// (output - label)^2.
metric root_mean_squared_error_metric();

struct auc_options {
  /// In [2, 512]. The thresholds are 0 and 1, just beyond which the first and
  /// the last one lie, and numbers at equal distances between them.
  std::uint32_t num_thresholds = 200;
  /// True: the outputs are scores, which the metric converts to probabilities
  /// by a sigmoid, as for `binary_cross_entropy`. False: they are in [0, 1].
  bool from_logits = false;
};

/// The metric "auc": the area under the ROC curve, as tf.keras.metrics.AUC with
/// its defaults computes it. An output above a threshold predicts the label 1.
/// The metric counts outputs by their position between the thresholds. Between
/// two thresholds the curve is a straight line. Counts are exact, so the order
/// of the additions has no influence. The value is 0 if all labels are equal,
/// and NaN if an output is NaN. If all outputs lie between two thresholds, the
/// value is 0.5, also if their order is perfect, as with probabilities that are
/// all below 0.005.
/// @shape labels the shape of the outputs, of any dtype, each 0 or 1. [n] and
///        [n, 1] fit each other.
/// @errors throws std::invalid_argument for a number of thresholds out of
///         range. `add` throws std::logic_error if the shapes do not fit, a
///         label is not 0 or 1, or an output is not in [0, 1].
metric auc_metric(const auc_options& options = {});

/// Counts the examples whose predicted class is their label. The predicted
/// class has the maximum score; if several classes have it, the first of these
/// classes is the prediction. An example with a NaN among its scores is not
/// counted.
/// @shape scores  [n, classes] float32
/// @shape labels  [n] or [n, 1] int32, each in [0, classes)
/// @errors throws std::logic_error with the shapes, with the dtype if the
///         labels are no class numbers, or with the label that is out of range.
std::uint64_t correct(const tensor& scores, const tensor& labels);

/// Sums the losses of all examples, in order.
/// @shape losses  [n] float32
double total(const tensor& losses);

} // namespace troupe::models
