#include "troupe/strategies/step_commit/step_report.hpp"

#include "troupe/strategies/tree/fold.hpp"

namespace troupe {

step_report total(std::span<const step_report> reports) {
  if (reports.empty())
    return {};
  if (reports.size() == 1)
    return reports.front();
  const auto cut = tree::split(reports.size());
  const auto a = total(reports.first(cut)), b = total(reports.subspan(cut));
  return {a.examples + b.examples, a.loss_sum + b.loss_sum,
          a.correct + b.correct};
}

} // namespace troupe
