// This file implements the calls of the callbacks of `fit`.

#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/strategies/calls/step_callback.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace troupe {

void fit_loop::keep_until_processed(const commit_record& commit) {
  forget_processed(commit.processed_by_chief);
  if (is_callback_chief_)
    forget_processed(commit.step + 1);
  else if (!options_.callbacks.empty())
    unprocessed_by_chief_.push_back(commit);
}

void fit_loop::forget_processed(std::uint64_t end) {
  auto& processed = model_.strategy->processed_callbacks;
  processed.end = std::max(processed.end, end);
  auto& kept = unprocessed_by_chief_;
  while (!kept.empty() && kept.front().step < processed.end)
    kept.pop_front();
}

void fit_loop::repeat_step_callbacks() {
  const bool was_chief = is_callback_chief_;
  is_callback_chief_ = model_.strategy->placement.process == 0;
  if (was_chief || !is_callback_chief_)
    return;
  forget_processed(0); // another process may have known more
  try {
    for (const auto& one : std::exchange(unprocessed_by_chief_, {})) {
      call_step_callbacks(one);
      forget_processed(one.step + 1);
    }
  } catch (...) {
    if (!thrown_)
      thrown_ = std::current_exception();
  }
}

void fit_loop::call_step_callbacks(const commit_record& commit) {
  const bool repeated = commit.step < called_steps_;
  called_steps_ = std::max(called_steps_, commit.step + 1);
  if (options_.callbacks.empty())
    return;
  const auto& sums = commit.total.sums;
  step_record record;
  record.step = commit.step;
  record.examples = commit.total.examples;
  record.loss =
    sums[metric_list::loss_sum]
    / static_cast<double>(std::max<std::uint64_t>(commit.total.examples, 1));
  record.skipped = sums[metric_list::skipped] > 0;
  record.repeated = repeated;
  for (std::size_t i = 0; i < step_values_.size(); ++i)
    step_values_[i].value = step_->metrics().value(i, sums);
  record.accuracy =
    record.skipped ? epoch_record::none : accuracy_in(step_values_);
  record.metrics = step_values_;
  const step_callback_scope in_callback{*model_.strategy, &model_};
  for (const auto& one : options_.callbacks)
    if (one.on_step)
      one.on_step(record);
}

void fit_loop::call_epoch_callbacks(const epoch_record& record) {
  is_callback_chief_ = model_.strategy->placement.process == 0;
  try {
    for (const auto& one : options_.callbacks)
      if (one.on_epoch_end)
        one.on_epoch_end(record);
  } catch (...) {
    if (!thrown_)
      thrown_ = std::current_exception();
  }
}

} // namespace troupe
