#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe {

/// The value of a metric.
struct metric_value {
  std::string name;
  double value = std::numeric_limits<double>::quiet_NaN();

  friend bool operator==(const metric_value&, const metric_value&) = default;
};

/// Metrics of one epoch of training. Loss and accuracy are means over the
/// examples of the epoch. Each step computes its part with the weights before
/// its update.
struct epoch_record {
  static constexpr auto none = std::numeric_limits<double>::quiet_NaN();

  std::uint64_t epoch = 0; ///< Number of the epoch, from 1.
  /// Steps over all fits of the model, up to the end of this epoch.
  std::uint64_t steps = 0;
  std::uint64_t examples = 0;
  double loss = none;     ///< NaN if no step of the epoch has made its update.
  double accuracy = none; ///< In [0, 1]. NaN without that metric.
  double validation_loss = none; ///< NaN without validation data.
  double validation_accuracy = none;
  /// All metrics of the fit, in the order of `fit_options::metrics`. The
  /// accuracy, if it is one of them, is also in `accuracy`.
  std::vector<metric_value> metrics{};
  /// The metrics on the validation data. Empty without validation data.
  std::vector<metric_value> validation_metrics{};
  double learning_rate = none; ///< Learning rate in the epoch's last step.
  /// Time of the steps. Zero before a complete fit goes on.
  double seconds = 0;
  /// True in a call of `callback::on_epoch_end`: it was called for this epoch
  /// before. The chief was lost and had perhaps not completed its call, so all
  /// workers call it again.
  /// Otherwise false.
  bool repeated = false;

  double examples_per_second() const {
    return seconds > 0 ? static_cast<double>(examples) / seconds : 0;
  }
};

/// Result of an evaluation: means over all examples of a dataset.
struct evaluation {
  std::uint64_t examples = 0;
  double loss = 0;     ///< NaN without an example.
  double accuracy = 0; ///< In [0, 1]. NaN without that metric.
  /// All metrics of the evaluation. The accuracy, if it is one of them, is also
  /// in `accuracy`.
  std::vector<metric_value> metrics{};
};

/// Reason why `fit` returned.
enum class fit_end : std::uint8_t {
  done,          ///< All epochs are complete.
  stopped_early, ///< Early stopping ended the fit.
  max_steps,     ///< `max_steps` was reached; the fit can be resumed.
  interrupted,   ///< A worker's stop flag was set; the fit can be resumed.
  /// The leave flag of this worker was set. The other workers go on with the
  /// fit; this one takes part in no further call.
  left,
};

struct history {
  std::vector<epoch_record> epochs;
  fit_end end = fit_end::done;
  /// Number of the epoch with the best value of early stopping's metric. Zero:
  /// no epoch had a finite one.
  std::uint64_t best_epoch = 0;

  /// Returns the last complete epoch.
  /// @errors throws std::logic_error if there is none.
  const epoch_record& last() const;
};

} // namespace troupe
