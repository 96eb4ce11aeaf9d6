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

/// What early stopping looks at, at the end of each epoch.
enum class measure : std::uint8_t {
  validation_loss,
  validation_accuracy,
  loss,
  accuracy,
};

/// Ends a fit when the measure has not improved for a while.
struct early_stopping {
  measure monitor = measure::validation_loss;
  std::uint64_t patience = 3; ///< Epochs without improvement.
  double min_delta = 0;       ///< Less than this is no improvement.
  bool restore_best = true;   ///< End with the weights of the best epoch.
};

/// One committed step.
struct step_record {
  std::uint64_t step = 0; ///< Global, from 0.
  std::uint64_t examples = 0;
  double loss = 0; ///< Mean over the step's examples.
  /// In [0, 1]. NaN if the update was left out (`on_nan`).
  double accuracy = 0;
};

/// Called on the thread that called `fit`. What one throws ends the fit.
struct callback {
  /// Between two passes: the model may be evaluated here, and saved so that a
  /// fit goes on from there with `resume`.
  std::function<void(const epoch_record&)> on_epoch_end{};
  /// While the next steps run already: the model is not to be touched here.
  std::function<void(const step_record&)> on_step{};
};

/// What `fit` does when a step's loss or the sum of its gradients is not a
/// number, or infinite. Its update is left out either way, so the weights stay
/// those of the last good step.
enum class on_nan : std::uint8_t {
  stop, ///< Throw, with the step.
  skip, ///< Warn, and go on with the next batch.
};

struct fit_options {
  /// In all, those before a resumption included; not those of earlier fits.
  std::uint64_t epochs = 1;
  /// Pass of the data that the first epoch reads, which decides the order of a
  /// shuffled dataset. Not given: pass 0 in a model's first fit, then the pass
  /// after the last that a fit of the model began.
  std::optional<std::uint64_t> first_pass{};
  std::optional<data::dataset> validation{}; ///< Batched.
  std::vector<callback> callbacks{};
  std::optional<troupe::early_stopping> early_stopping{};
  /// In place of the optimizer's own learning rate.
  std::optional<troupe::schedule> schedule{};
  progress_style progress = progress_style::none;
  troupe::on_nan on_nan = troupe::on_nan::stop;
  std::uint64_t max_steps = 0; ///< Of this call; 0: no limit.
  /// Batches that a thread reads ahead; 0: none is read ahead. Not given: what
  /// the dataset was told, or else 2.
  std::optional<std::size_t> prefetch{};
  /// Set by anyone, a signal handler too: ends the fit at a step's boundary,
  /// with `fit_end::interrupted`.
  const std::atomic<bool>* stop = nullptr;
  /// Go on where the fit that the model was saved in was interrupted: the
  /// dataset and the options must be the same. Else the pass of
  /// `first_pass` begins.
  bool resume = false;
};

} // namespace troupe
