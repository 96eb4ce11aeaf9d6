#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe {

/// One epoch of training. Loss and accuracy are means over the examples of the
/// epoch, each computed with the weights of its step.
struct epoch_record {
  static constexpr auto none = std::numeric_limits<double>::quiet_NaN();

  std::uint64_t epoch = 0; ///< Number of the epoch, from 1.
  std::uint64_t steps = 0; ///< Steps of the model until the end of this epoch.
  std::uint64_t examples = 0;
  double loss = none;
  double accuracy = none;        ///< In [0, 1].
  double validation_loss = none; ///< NaN without validation data.
  double validation_accuracy = none;
  double learning_rate = none; ///< Learning rate of the last step.
  double seconds = 0;          ///< Time in steps, without validation.

  double examples_per_second() const {
    return seconds > 0 ? static_cast<double>(examples) / seconds : 0;
  }
};

/// Means over all examples of a dataset.
struct evaluation {
  std::uint64_t examples = 0;
  double loss = 0;
  double accuracy = 0; ///< In [0, 1].
};

/// Reason why `fit` returned.
enum class fit_end : std::uint8_t {
  done,          ///< All epochs are complete.
  stopped_early, ///< Early stopping: no improvement.
  max_steps,     ///< `max_steps` was reached.
  interrupted,   ///< Stopped by the caller; it can be resumed.
};

struct history {
  std::vector<epoch_record> epochs;
  fit_end end = fit_end::done;
  /// Best epoch by the metric of early stopping; 0: none.
  std::uint64_t best_epoch = 0;

  /// Returns the last complete epoch.
  /// @errors throws std::logic_error if there is none.
  const epoch_record& last() const;
};

} // namespace troupe
