#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace troupe {

/// One pass over the training data, as its steps went: loss and accuracy are
/// means over the examples of the pass, each taken with the weights of its
/// step.
struct epoch_record {
  static constexpr auto none = std::numeric_limits<double>::quiet_NaN();

  std::uint64_t epoch = 0; ///< From 1.
  std::uint64_t steps = 0; ///< Of all epochs so far.
  std::uint64_t examples = 0;
  double loss = none;
  double accuracy = none;        ///< In [0, 1].
  double validation_loss = none; ///< NaN without validation data.
  double validation_accuracy = none;
  double learning_rate = none; ///< Of the last step.
  double seconds = 0;          ///< In steps; validation is not counted.

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

/// Why `fit` returned.
enum class fit_end : std::uint8_t {
  done,          ///< All epochs.
  stopped_early, ///< Nothing improved any more.
  max_steps,     ///< As many steps as were asked for.
  interrupted,   ///< Asked to stop; it can go on from here.
};

struct history {
  std::vector<epoch_record> epochs;
  fit_end end = fit_end::done;
  std::uint64_t best_epoch = 0; ///< By early stopping's measure; 0: none.

  /// The last complete epoch.
  /// @errors throws std::logic_error if there is none.
  const epoch_record& last() const;
};

} // namespace troupe
