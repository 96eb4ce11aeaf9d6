// This file implements the end of an epoch of `fit`: validation, early stopping
// and callbacks.

#include "troupe/tensors/context.hpp"
#include "troupe/training/loop/fit/evaluate.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/loop/options/monitored_value.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

namespace troupe {

namespace {

/// Returns the value of an epoch, negated if a larger one is better.
double value_of(const monitored_value& of, const epoch_record& record) {
  const auto& metrics =
    of.is_validation ? record.validation_metrics : record.metrics;
  const auto loss = of.is_validation ? record.validation_loss : record.loss;
  const auto value = of.metric ? metrics.at(*of.metric).value : loss;
  return of.larger_is_better ? -value : value;
}

} // namespace

bool fit_loop::end_epoch() {
  epoch_record record;
  record.epoch = position_.epochs_done() + 1;
  record.steps = model_.steps;
  record.examples = position_.totals.examples;
  record.loss = position_.totals.mean_loss();
  record.metrics = position_.totals.values(step_->metrics());
  record.accuracy = accuracy_in(record.metrics);
  record.seconds = position_.totals.seconds;
  record.learning_rate = step_->learning_rate(model_.steps - 1);
  if (options_.validation) {
    auto found = evaluate(shared_model_, *options_.validation, step_->metrics(),
                          "fit (validation)");
    record.validation_loss = found.loss;
    record.validation_accuracy = found.accuracy;
    record.validation_metrics = std::move(found.metrics);
  }
  if (model_.strategy->placement.process == 0)
    warn_if_without_update(record);
  position_.epochs.push_back(record);
  if (step_view_ != model_.strategy->views)
    begin_progress(); // this process may have become the chief
  position_.next_batch = {position_.next_batch.epoch + 1, 0};
  position_.totals = {};
  progress_->end(record);
  update_early_stopping(record);
  if (!options_.callbacks.empty())
    identify_data();
  model_.interrupted = position_; // A callback may save the model.
  call_epoch_callbacks(record);
  // The callbacks may evaluate and save, which are calls of all workers. So
  // all of them call their callbacks again.
  auto repeated_record = std::move(record);
  repeated_record.repeated = true;
  synchronize_workers(workers_end::callbacks,
                      [&] { call_epoch_callbacks(repeated_record); });
  model_.interrupted.reset();
  return !should_stop_early();
}

bool fit_loop::should_stop_early() const {
  const auto& early = options_.early_stopping;
  return early && position_.epochs_without_improvement > 0
         && position_.epochs_without_improvement >= early->patience;
}

void fit_loop::update_early_stopping(const epoch_record& record) {
  const auto& early = options_.early_stopping;
  if (!early)
    return;
  const auto now =
    value_of(monitored_value_of(*early, step_->metrics()), record);
  if (std::isfinite(now)
      && (std::isnan(position_.best_metric)
          || now < position_.best_metric - early->min_delta)) {
    position_.best_metric = now;
    position_.best_epoch = record.epoch;
    position_.epochs_without_improvement = 0;
    const sharing_scope weights_are_not_contributed{false};
    if (early->restore_best)
      position_.best_weights = model_.model_parameters.values(0).clone();
  } else {
    ++position_.epochs_without_improvement;
  }
}

void fit_loop::restore_best() {
  if (!position_.best_weights
      || position_.best_epoch == position_.epochs.size())
    return;
  model_.model_parameters.values(0).copy_from(position_.best_weights);
  model_.broadcast_copy(0);
}

} // namespace troupe
