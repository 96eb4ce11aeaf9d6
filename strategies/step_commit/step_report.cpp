#include "troupe/strategies/step_commit/step_report.hpp"

#include "troupe/strategies/tree/fold.hpp"

namespace troupe {

step_metrics sum_metrics(std::span<const step_metrics> metrics) {
  if (metrics.empty())
    return {};
  if (metrics.size() == 1)
    return metrics.front();
  const auto cut = tree::split(metrics.size());
  const auto a = sum_metrics(metrics.first(cut)),
             b = sum_metrics(metrics.subspan(cut));
  return {a.examples + b.examples, a.loss_sum + b.loss_sum,
          a.correct + b.correct};
}

} // namespace troupe
