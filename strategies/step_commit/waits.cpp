#include "troupe/strategies/step_commit/waits.hpp"

#include <algorithm>

namespace troupe::step_commit {

role_wait wait_of(const wait_report& report) {
  return {report.reducer, report.id, report.current_activity, report.bucket,
          report.missing};
}

void add_missing(std::span<role_wait> waits,
                 std::span<const wait_report> reports) {
  for (auto& wait : waits) {
    if (wait.current_activity != activity::all_reduce || !wait.missing.empty())
      continue;
    for (const auto& x : reports)
      if (x.current_activity == activity::idle
          || (x.current_activity == activity::all_reduce
              && x.bucket == wait.bucket))
        wait.missing.insert(wait.missing.end(), x.missing.begin(),
                            x.missing.end());
    std::ranges::sort(wait.missing);
    wait.missing.erase(std::unique(wait.missing.begin(), wait.missing.end()),
                       wait.missing.end());
  }
}

void add_waits(failure_report& out, std::span<const wait_report> reports,
               std::span<const std::uint32_t> behind,
               std::span<const std::uint32_t> silent) {
  for (const auto& x : reports)
    if (x.current_activity != activity::idle
        || (!x.reducer && std::ranges::count(behind, x.id)))
      out.waits.push_back(wait_of(x));
  add_missing(out.waits, reports);
  for (const auto r : behind)
    if (std::ranges::count(silent, r))
      out.unresponsive.push_back(r);
}

} // namespace troupe::step_commit
