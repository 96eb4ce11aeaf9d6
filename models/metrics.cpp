#include "troupe/models/metrics.hpp"

#include "troupe/models/losses.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace troupe::models {

namespace {

/// Outputs and labels on the CPU, in float32.
struct compared_batch {
  tensor outputs, labels;
};

/// @param name of the metric, in the error text.
compared_batch comparable(const char* name, const tensor& outputs,
                          const tensor& labels) {
  if (!labels || !are_comparable(outputs.dims(), labels.dims()))
    throw std::logic_error(std::string{name} + " of outputs "
                           + to_string(outputs.spec())
                           + (labels ? " and labels " + to_string(labels.spec())
                                     : std::string{" without labels"}));
  return {outputs.detach().to({}), labels.detach().to({}).as(dtype::float32)};
}

/// Adds `fn(output - label)` of each output to the first sum, and the number of
/// outputs to the second one.
template <class F>
void add_differences(const char* name, const tensor& outputs,
                     const tensor& labels, std::span<double> sums, F fn) {
  const flush_denormals flushing;
  const auto [given, wanted] = comparable(name, outputs, labels);
  const auto x = given.data<float>(), y = wanted.data<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    sums[0] += fn(double{x[i]} - double{y[i]});
  sums[1] += static_cast<double>(x.size());
}

/// Replaces scores by 1 / (1 + e^-score).
void apply_sigmoid(std::span<float> x) {
  for (auto& one : x)
    one = -one;
  kernels().exp(x.data(), x.data(), x.size());
  for (auto& one : x)
    one = 1 / (1 + one);
}

/// Counts the outputs of a batch by their label, and by the threshold below
/// which they are. Index b is for outputs in (b / buckets, (b + 1) / buckets],
/// and 0 also for the output 0.
/// @param sums numbers of outputs with label 1 by bucket, then of those with
///        label 0. An output that is NaN makes the first one NaN.
void add_to_buckets(const auc_options& options, const tensor& outputs,
                    const tensor& labels, std::span<double> sums) {
  const flush_denormals flushing;
  const auto [given, wanted] = comparable("auc", outputs, labels);
  const auto buckets = options.num_thresholds - 1;
  const auto y = wanted.data<float>();
  std::vector<float> x(given.data<float>().begin(), given.data<float>().end());
  if (options.from_logits)
    apply_sigmoid(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (y[i] != 0 && y[i] != 1)
      throw std::logic_error("auc of a label " + std::to_string(y[i])
                             + "; labels are 0 or 1");
    if (std::isnan(x[i])) {
      sums[0] += std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    if (x[i] < 0 || x[i] > 1)
      throw std::logic_error("auc of an output " + std::to_string(x[i])
                             + ", which is not in [0, 1]; set from_logits if "
                               "the outputs are scores");
    const auto position = std::ceil(x[i] * static_cast<float>(buckets));
    const auto bucket =
      position > 1 ? static_cast<std::size_t>(position) - 1 : 0;
    sums[y[i] == 1 ? bucket : buckets + bucket] += 1;
  }
}

/// Computes the area under the curve of true positive rates over false positive
/// rates from the counts of `add_to_buckets`.
double area_under_roc(std::span<const double> sums) {
  const auto buckets = sums.size() / 2;
  const auto positives = sums.first(buckets), negatives = sums.last(buckets);
  double area = 0, true_positives = 0, false_positives = 0;
  for (auto b = buckets; b-- > 0;) { // from the highest threshold down
    const auto before = true_positives;
    true_positives += positives[b];
    false_positives += negatives[b];
    area += negatives[b] * (before + true_positives) / 2;
  }
  const auto pairs = true_positives * false_positives;
  return pairs == 0 ? 0 : area / pairs;
}

} // namespace

metric accuracy_metric() {
  return {
    .name = "accuracy",
    .add =
      [](const tensor& outputs, const tensor& labels, std::span<double> sums) {
        sums[0] += static_cast<double>(correct(outputs, labels));
        sums[1] += static_cast<double>(outputs.dims().front());
      },
    .larger_is_better = true};
}

metric mean_absolute_error_metric() {
  return {
    .name = "mean_absolute_error",
    .add =
      [](const tensor& outputs, const tensor& labels, std::span<double> sums) {
        add_differences("mean_absolute_error", outputs, labels, sums,
                        [](double x) { return std::abs(x); });
      },
    .larger_is_better = false};
}

metric root_mean_squared_error_metric() {
  return {
    .name = "root_mean_squared_error",
    .add =
      [](const tensor& outputs, const tensor& labels, std::span<double> sums) {
        add_differences("root_mean_squared_error", outputs, labels, sums,
                        [](double x) { return x * x; });
      },
    .value =
      [](std::span<const double> sums) { return std::sqrt(sums[0] / sums[1]); },
    .larger_is_better = false};
}

metric auc_metric(const auc_options& options) {
  if (options.num_thresholds < 2 || options.num_thresholds > 512)
    throw std::invalid_argument("auc: num_thresholds is "
                                + std::to_string(options.num_thresholds)
                                + "; it must be from 2 to 512");
  return {.name = "auc",
          .sums = 2 * std::size_t{options.num_thresholds - 1},
          .add =
            [options](const tensor& outputs, const tensor& labels,
                      std::span<double> sums) {
              add_to_buckets(options, outputs, labels, sums);
            },
          .value = area_under_roc,
          .larger_is_better = true};
}

std::uint64_t correct(const tensor& scores, const tensor& labels) {
  const auto &x = scores.dims(), &y = labels.dims();
  const bool is_column = y.rank() == 1 || (y.rank() == 2 && y[1] == 1);
  const bool are_numbers = labels && labels.type() == dtype::int32;
  if (x.rank() != 2 || !is_column || x[0] != y[0] || !are_numbers)
    throw std::logic_error(
      "accuracy of scores " + to_string(scores.spec())
      + (labels ? " and labels " + to_string(labels.spec())
                : std::string{" without labels"})
      + (labels && !are_numbers
           ? "; it counts class numbers, which are int32[n]: for labels 0 and "
             "1 of another dtype take auc_metric or a metric of your own"
           : ""));
  const auto classes = static_cast<std::size_t>(x[1]);
  const auto given = scores.detach().to({}), targets = labels.detach().to({});
  const auto values = given.data<float>();
  const auto wanted = targets.data<std::int32_t>();
  const flush_denormals flushing;
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto row = values.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(wanted[i]);
    if (label >= classes)
      throw std::logic_error("label " + std::to_string(wanted[i]) + " in row "
                             + std::to_string(i) + " of "
                             + std::to_string(classes) + " classes");
    const auto unordered = [](float score) { return std::isnan(score); };
    if (!std::ranges::any_of(row, unordered)
        && std::ranges::max_element(row) - row.begin()
             == static_cast<std::ptrdiff_t>(label))
      ++hits;
  }
  return hits;
}

double total(const tensor& losses) {
  const flush_denormals flushing;
  const auto given = losses.detach().to({});
  const auto each = given.data<float>();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

} // namespace troupe::models
