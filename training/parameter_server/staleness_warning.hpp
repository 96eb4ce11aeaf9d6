#pragma once

#include "troupe/strategies/parameter_server/gradient_staleness.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace troupe {

/// Warns once if a fit with stale gradients does not reduce its loss: if the
/// mean over its last steps is not below that over its first ones.
class staleness_warning {
public:
  /// Number of the first steps, and of the last ones.
  static constexpr std::size_t steps = 50;

  /// @param measure returns the staleness of all gradients so far. Empty: no
  ///        gradient is stale, and there is no warning.
  explicit staleness_warning(
    std::function<parameter_server::gradient_staleness()> measure);

  /// Adds the metrics of a step, in the order of the steps.
  void add(const step_metrics& step);
  /// Warns if there is a reason.
  /// @param all_steps that the model has made.
  void warn(std::uint64_t all_steps);

private:
  /// Sum of the losses of a step, and the number of its examples.
  using loss = std::pair<double, double>;
  static double mean(const std::deque<loss>& of);

  std::function<parameter_server::gradient_staleness()> measure_;
  parameter_server::gradient_staleness before_; ///< Of earlier gradients.
  std::deque<loss> first_, last_;
};

} // namespace troupe
