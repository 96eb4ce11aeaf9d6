#pragma once

#include "troupe/strategies/parameter_server/gradient_staleness.hpp"
#include "troupe/training/loop/options/history.hpp"

#include <cstdint>
#include <functional>

namespace troupe {

/// Warns once if a fit with stale gradients ends an epoch in which its loss was
/// not below that of its first steps.
class staleness_warning {
public:
  /// Number of the first steps.
  static constexpr std::uint64_t first_steps = 50;

  /// @param measure returns the staleness of all gradients so far. Empty: no
  ///        gradient is stale.
  explicit staleness_warning(
    std::function<parameter_server::gradient_staleness()> measure);

  /// @param first_loss mean over the examples of the first steps of the fit.
  void warn(double first_loss, const epoch_record& epoch);

private:
  std::function<parameter_server::gradient_staleness()> measure_;
  parameter_server::gradient_staleness before_; ///< Of earlier gradients.
};

} // namespace troupe
