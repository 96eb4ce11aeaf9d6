#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/tensors/schedules.hpp"
#include "troupe/training/loop/history.hpp"
#include "troupe/training/loop/progress.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace troupe {

/// The metric that early stopping evaluates at the end of each epoch.
enum class monitored_metric : std::uint8_t {
  validation_loss,
  validation_accuracy,
  loss,
  accuracy,
};

/// Ends a fit when the monitored metric does not improve any more.
struct early_stopping {
  monitored_metric monitor = monitored_metric::validation_loss;
  std::uint64_t patience = 3; ///< Epochs without improvement.
  double min_delta = 0;       ///< A smaller difference is no improvement.
  bool restore_best = true;   ///< Ends with the weights of the best epoch.
};

/// One committed step.
struct step_record {
  /// Number of the step over all fits of the model, from 0.
  std::uint64_t step = 0;
  std::uint64_t examples = 0;
  double loss = 0; ///< Mean over the step's examples.
  /// In [0, 1]. NaN if the update was skipped (`on_nan`).
  double accuracy = 0;
};

/// Functions that `fit` calls on the thread of its caller. An exception ends
/// the fit.
struct callback {
  /// Called between two epochs. It may evaluate the model, and save it so that
  /// a fit can continue from there with `resume`.
  std::function<void(const epoch_record&)> on_epoch_end{};
  /// Called while the next steps are running: it must not access the model.
  std::function<void(const step_record&)> on_step{};
};

/// Reaction of `fit` if a step's loss or reduced gradient is NaN or infinite.
/// With either value the update of that step is skipped, so the weights stay
/// those of the last good step.
enum class on_nan : std::uint8_t {
  stop, ///< Throws an error that names the step.
  skip, ///< Logs a warning and continues with the next batch.
};

struct fit_options {
  /// Epochs in total, including those before a resumption but not those of
  /// earlier fits.
  std::uint64_t epochs = 1;
  /// Epoch of the data with which the fit begins. It selects the order of a
  /// shuffled dataset. None: 0 in the model's first fit. In a later fit: the
  /// epoch after the last one in which the model was trained.
  std::optional<std::uint64_t> first_epoch{};
  std::optional<data::dataset> validation{}; ///< Must be batched.
  std::vector<callback> callbacks{};
  std::optional<troupe::early_stopping> early_stopping{};
  /// Replaces the learning rate of the optimizer.
  std::optional<troupe::schedule> schedule{};
  progress_style progress = progress_style::none;
  troupe::on_nan on_nan = troupe::on_nan::stop;
  /// Maximum number of steps of this call. Zero: no limit.
  std::uint64_t max_steps = 0;
  /// Number of batches that a thread reads ahead. Zero: no prefetching. None:
  /// the dataset's own setting, or else 2.
  std::optional<std::size_t> prefetch{};
  /// Flag that any thread or a signal handler may set: ends the fit between two
  /// steps, with `fit_end::interrupted`.
  const std::atomic<bool>* stop = nullptr;
  /// Continues the interrupted fit that was saved with the model; dataset and
  /// options must be the same. If false, the fit begins with the epoch
  /// `first_epoch`.
  bool resume = false;
};

} // namespace troupe
