// The end of an epoch in `fit`: validation, early stopping, callbacks.

#include "troupe/training/loop/fit_loop.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

namespace troupe {

namespace {

double value_of(measure what, const epoch_record& x) {
  switch (what) {
    case measure::validation_loss:
      return x.validation_loss;
    case measure::validation_accuracy:
      return -x.validation_accuracy;
    case measure::loss:
      return x.loss;
    case measure::accuracy:
      break;
  }
  return -x.accuracy;
}

} // namespace

bool fit_loop::end_pass() {
  epoch_record x;
  x.epoch = at_.epochs_done() + 1;
  x.steps = it_.steps;
  x.examples = at_.totals.examples;
  const auto n = static_cast<double>(std::max<std::uint64_t>(x.examples, 1));
  x.loss = at_.totals.loss_sum / n;
  x.accuracy = at_.totals.correct / n;
  x.seconds = at_.totals.seconds;
  x.learning_rate = step_->learning_rate(it_.steps - 1);
  if (options_.validation) {
    const auto found = evaluate(shared_, *options_.validation);
    x.validation_loss = found.loss;
    x.validation_accuracy = found.accuracy;
  }
  at_.epochs.push_back(x);
  at_.at = {at_.at.pass + 1, 0};
  at_.totals = {};
  shown_.end(x);
  judge(x);
  it_.interrupted = at_; // For a callback that saves the model.
  try {
    for (const auto& one : options_.callbacks)
      if (one.on_epoch_end)
        one.on_epoch_end(x);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  agree();
  it_.interrupted.reset();
  return !gives_up();
}

bool fit_loop::gives_up() const {
  const auto& early = options_.early_stopping;
  return early && at_.waited > 0 && at_.waited >= early->patience;
}

void fit_loop::judge(const epoch_record& x) {
  const auto& early = options_.early_stopping;
  if (!early)
    return;
  const auto now = value_of(early->monitor, x);
  if (std::isnan(at_.best) || now < at_.best - early->min_delta) {
    at_.best = now;
    at_.best_epoch = x.epoch;
    at_.waited = 0;
    if (early->restore_best)
      at_.best_weights = it_.own.values(0).clone();
  } else {
    ++at_.waited;
  }
}

void fit_loop::restore_best() {
  if (!at_.best_weights || at_.best_epoch == at_.epochs.size())
    return;
  it_.own.values(0).copy_from(at_.best_weights);
  it_.share_copy(0);
}

} // namespace troupe
