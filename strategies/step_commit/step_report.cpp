#include "troupe/strategies/step_commit/step_report.hpp"

#include "troupe/strategies/tree/fold.hpp"

namespace troupe {

namespace {

/// Adds one of the sums over the replicas.
double reduced_sum(std::span<const step_metrics> metrics, std::size_t index) {
  if (metrics.size() == 1)
    return metrics.front().sums[index];
  const auto cut = tree::split(metrics.size());
  return reduced_sum(metrics.first(cut), index)
         + reduced_sum(metrics.subspan(cut), index);
}

} // namespace

void sum_metrics(std::span<const step_metrics> metrics, step_metrics& total) {
  total.reset(metrics.empty() ? 0 : metrics.front().sums.size());
  for (const auto& one : metrics)
    total.examples += one.examples;
  for (std::size_t i = 0; i < total.sums.size(); ++i)
    total.sums[i] = reduced_sum(metrics, i);
}

} // namespace troupe
