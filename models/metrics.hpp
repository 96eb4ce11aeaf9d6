#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <functional>
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
  /// @param labels the labels of these examples
  /// @param sums `metric::sums` numbers
  std::function<void(const tensor& outputs, const tensor& labels,
                     std::span<double> sums)>
    add = {};

  /// Computes the value from the sums over all examples. Empty: the quotient of
  /// the first sum and the second one, which is then a count.
  std::function<double(std::span<const double> sums)> value = {};
};

/// The metric "accuracy": the fraction of examples that `correct` counts.
metric accuracy_metric();

/// The metric "mean_absolute_error": the mean of |output - label|.
metric mean_absolute_error_metric();

/// The metric "root_mean_squared_error": the root of the mean of
/// (output - label)^2.
metric root_mean_squared_error_metric();

/// Counts the examples whose predicted class is their label. The predicted
/// class has the maximum score; if several classes have it, the first of these
/// classes is the prediction. An example with a NaN among its scores is not
/// counted.
/// @shape scores  [n, classes] float32
/// @shape labels  [n] int32, each in [0, classes)
/// @errors throws std::logic_error with the shapes, or with the label that is
///         out of range.
std::uint64_t correct(const tensor& scores, const tensor& labels);

/// Sums the losses of all examples, in order.
/// @shape losses  [n] float32
double total(const tensor& losses);

} // namespace troupe::models
