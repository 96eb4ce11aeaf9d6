#pragma once

#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/training/loop/options/history.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The metrics of a fit or an evaluation, and the meaning of each of a step's
/// sums (`step_metrics::sums`). The list does not change during a run, and all
/// replicas agree on it before the run.
class metric_list {
public:
  /// Index of the sum of the examples' losses.
  static constexpr std::size_t loss_sum = 0;
  /// Index of the number of replicas that skipped the update (`on_nan`).
  static constexpr std::size_t skipped = 1;

  metric_list() = default;

  /// @errors throws std::invalid_argument for an invalid name, two metrics of
  ///         one name, a metric without `add`, and too many sums.
  explicit metric_list(std::vector<models::metric> metrics);

  std::size_t size() const { return metrics_.size(); }
  const std::string& name(std::size_t i) const { return metrics_[i].name; }
  /// As `models::metric::larger_is_better`.
  std::optional<bool> larger_is_better(std::size_t i) const {
    return metrics_[i].larger_is_better;
  }
  /// Returns the index of the metric with this name. None: there is none.
  std::optional<std::size_t> find(std::string_view name) const;
  /// Number of sums of the metric `i`.
  std::size_t sums_of(std::size_t i) const { return metrics_[i].sums; }
  /// Number of all sums.
  std::size_t sum_count() const { return sum_count_; }

  /// Adds the examples of a batch to the sums of all metrics in the list. Does
  /// not change the sum of the losses. The metrics get the outputs on the CPU.
  /// @param labels on the CPU.
  void add(const tensor& outputs, const tensor& labels,
           std::span<double> sums) const;

  /// Computes the value of the metric `i` from the sums over all examples.
  /// NaN: there was no example.
  double value(std::size_t i, std::span<const double> sums) const;
  std::vector<metric_value> values(std::span<const double> sums) const;

  /// Returns names and numbers of sums as a text: "accuracy (2)". Two lists
  /// with equal texts can be added.
  std::string description() const;

private:
  std::vector<models::metric> metrics_;
  std::vector<std::size_t> begins_; ///< Index of each metric's first sum.
  std::size_t sum_count_ = skipped + 1;
};

/// Returns the metrics of a fit or an evaluation.
/// @param chosen None: the accuracy for a loss of class labels, else no metric.
metric_list
metrics_of(const models::loss& loss,
           const std::optional<std::vector<models::metric>>& chosen);

/// Returns the value of the metric "accuracy". NaN: it is not in the list.
double accuracy_in(std::span<const metric_value> values);

} // namespace troupe
