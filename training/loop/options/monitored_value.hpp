#pragma once

#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/loop/options/metric_list.hpp"

#include <cstddef>
#include <optional>

namespace troupe {

/// What early stopping evaluates at the end of an epoch.
struct monitored_value {
  bool is_validation = false;
  /// Index in the list of the fit's metrics. None: the loss.
  std::optional<std::size_t> metric{};
  bool larger_is_better = false;
};

/// Finds what early stopping evaluates.
/// @errors throws std::invalid_argument if the fit has no such value, or if
///         `min_delta` is negative or not finite. Throws it if the mode is
///         automatic and the metric does not say which values are better.
monitored_value monitored_value_of(const early_stopping& options,
                                   const metric_list& metrics);

} // namespace troupe
