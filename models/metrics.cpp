#include "troupe/models/metrics.hpp"

#include "troupe/models/losses.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace troupe::models {

namespace {

/// Adds `fn(output - label)` of each output to the first sum, and the number of
/// outputs to the second one.
template <class F>
void add_differences(const char* name, const tensor& outputs,
                     const tensor& labels, std::span<double> sums, F fn) {
  if (!labels || !are_comparable(outputs.dims(), labels.dims()))
    throw std::logic_error(std::string{name} + " of outputs "
                           + to_string(outputs.spec())
                           + (labels ? " and labels " + to_string(labels.spec())
                                     : std::string{" without labels"}));
  const flush_denormals flushing;
  const auto given = outputs.detach().to({});
  const auto wanted = labels.detach().to({}).as(dtype::float32);
  const auto x = given.data<float>(), y = wanted.data<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    sums[0] += fn(double{x[i]} - double{y[i]});
  sums[1] += static_cast<double>(x.size());
}

} // namespace

metric accuracy_metric() {
  return {.name = "accuracy",
          .add = [](const tensor& outputs, const tensor& labels,
                    std::span<double> sums) {
            sums[0] += static_cast<double>(correct(outputs, labels));
            sums[1] += static_cast<double>(outputs.dims().front());
          }};
}

metric mean_absolute_error_metric() {
  return {.name = "mean_absolute_error",
          .add = [](const tensor& outputs, const tensor& labels,
                    std::span<double> sums) {
            add_differences("mean_absolute_error", outputs, labels, sums,
                            [](double x) { return std::abs(x); });
          }};
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
      [](std::span<const double> sums) {
        return std::sqrt(sums[0] / sums[1]);
      }};
}

std::uint64_t correct(const tensor& scores, const tensor& labels) {
  const auto &x = scores.dims(), &y = labels.dims();
  if (x.rank() != 2 || y.rank() != 1 || x[0] != y[0])
    throw std::logic_error("accuracy of scores " + to_string(scores.spec())
                           + " and labels " + to_string(labels.spec()));
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
