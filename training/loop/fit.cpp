#include "troupe/training/loop/fit.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/training/loop/fit_loop.hpp"
#include "troupe/training/loop/worker_consistency.hpp"
#include "troupe/training/support/log.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace troupe {

history fit(const std::shared_ptr<model_state>& it,
            const data::dataset& batches, const fit_options& options) {
  return fit_loop{it, batches, options}.run();
}

namespace {

constexpr std::size_t read_ahead = 2; // Batches.

bool needs_validation(measure what) {
  return what == measure::validation_loss
         || what == measure::validation_accuracy;
}

void check(const model_state& it, const data::dataset& batches,
           const fit_options& options) {
  check_data(it, batches, "the training data");
  if (options.validation)
    check_data(it, *options.validation, "the validation data");
  if (options.epochs == 0)
    throw std::invalid_argument(
      "epochs: 0 is not a valid number of epochs; give 1 or more");
  const auto& early = options.early_stopping;
  if (early && needs_validation(early->monitor) && !options.validation)
    throw std::invalid_argument("early stopping monitors validation data, but "
                                "there is none; pass some or monitor the loss");
  const auto rows = batches.element().dims.front();
  if (rows < std::int64_t{it.strategy->replicas})
    throw std::invalid_argument(
      "a batch size of " + std::to_string(rows) + " leaves some of "
      + std::to_string(it.strategy->replicas)
      + " replicas without an example; give a batch size of at least "
      + std::to_string(it.strategy->replicas));
}

std::string what_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

} // namespace

fit_loop::fit_loop(std::shared_ptr<model_state> it,
                   const data::dataset& batches, const fit_options& options)
  : shared_{std::move(it)},
    it_{*shared_},
    batches_{batches.prefetch(
      options.prefetch.value_or(batches.prefetched().value_or(read_ahead)))},
    options_{options},
    step_{std::make_shared<train_step>(shared_, options)},
    shown_{it_.strategy->here.process == 0 ? options.progress
                                           : progress_style::none} {
  check(it_, batches, options);
  at_.first_pass = options.first_pass.value_or(it_.passes);
  at_.at = {at_.first_pass, 0};
  at_.batches = *batches.size();
  at_.replicas = it_.strategy->replicas;
  if (options.resume)
    take_up();
  it_.interrupted.reset();
}

void fit_loop::take_up() {
  if (!it_.interrupted)
    throw std::invalid_argument("there is no interrupted fit to resume; fit "
                                "without resume");
  auto& old = *it_.interrupted;
  if (old.batches != at_.batches)
    throw std::invalid_argument(
      "the interrupted fit had " + std::to_string(old.batches)
      + " batches in an epoch, but this dataset has "
      + std::to_string(at_.batches) + "; resume with the same data and batch");
  if (old.replicas != at_.replicas)
    throw std::invalid_argument(
      "the interrupted fit had " + std::to_string(old.replicas)
      + " replicas, but this strategy has " + std::to_string(at_.replicas)
      + "; resume with the same number");
  if (options_.first_pass.value_or(old.first_pass) != old.first_pass)
    throw std::invalid_argument(
      "first_epoch " + std::to_string(*options_.first_pass)
      + ": the interrupted fit began with epoch "
      + std::to_string(old.first_pass)
      + " of the data; give that, or leave the option out");
  at_ = std::move(old);
}

history fit_loop::run() {
  check_equal_workers(it_, batches_, options_, at_);
  // A callback may have saved the model in the epoch that met the condition of
  // early stopping.
  auto end = gives_up() ? fit_end::stopped_early : fit_end::done;
  while (end == fit_end::done && at_.epochs_done() < options_.epochs) {
    end = run_pass();
    if (at_.at.index == at_.batches)
      if (!end_pass())
        end = fit_end::stopped_early; // Even if the last step was interrupted.
  }
  if (at_.epochs_done() == options_.epochs && end != fit_end::stopped_early)
    // The fit is complete even if its last step was interrupted.
    end = fit_end::done;
  if (end == fit_end::interrupted || end == fit_end::max_steps)
    it_.interrupted = at_;
  else
    restore_best();
  return {at_.epochs, end, at_.best_epoch};
}

fit_end fit_loop::run_pass() {
  shown_.begin(shown());
  step_->feed_from(std::make_shared<batch_feed>(batches_, at_.at, it_.steps,
                                                *it_.strategy->members));
  end_ = fit_end::done;
  bad_step_.reset();
  last_ = clock::now();
  work all;
  all.first_step = it_.steps;
  all.steps = at_.batches - at_.at.index;
  if (options_.max_steps > 0)
    all.steps = std::min(all.steps, options_.max_steps - done_);
  all.step = [step = step_](step_context& at) { (*step)(at); };
  all.on_commit = [this](const commit_record& x) { hear(x); };
  // This timeout also bounds the time without commits: while a callback of
  // another worker runs, only the steps within the step window are granted.
  all.join_timeout = it_.strategy->callback_timeout;
  if (all.steps > 0)
    run(all);
  if (bad_step_ && options_.on_nan == on_nan::stop)
    throw std::runtime_error(bad_what_ + " was not finite at step "
                             + std::to_string(*bad_step_)
                             + "; the weights are those before that step (try "
                               "a smaller learning rate, "
                               "or on_nan skip, in the tool --on-nan skip)");
  if (end_ == fit_end::done && options_.max_steps > 0
      && done_ == options_.max_steps)
    end_ = fit_end::max_steps;
  return end_;
}

void fit_loop::run(const work& all) {
  std::uint64_t next = 0;
  try {
    next = run_work(it_.strategy, all);
  } catch (...) {
    step_->catch_up(); // A replica may be stuck in a step, so the feed is kept.
    throw;
  }
  step_->feed_from(nullptr); // Destroys the batches and their reading thread.
  if (next < all.first_step + all.steps && !bad_step_)
    end_ = fit_end::interrupted; // By this worker or another.
  agree();
}

/// An exception of one worker's callback, or the stop of one worker, ends the
/// fit of all.
void fit_loop::agree() {
  const auto thrown = std::exchange(thrown_, nullptr);
  const std::string mine = thrown ? "!" + what_of(thrown)
                           : end_ == fit_end::interrupted ? "i"
                                                          : "";
  const auto said =
    tell_all(it_.strategy, mine, it_.strategy->callback_timeout);
  if (thrown)
    std::rethrow_exception(thrown);
  for (std::size_t w = 0; w < said.size(); ++w) {
    if (said[w].starts_with('!'))
      throw std::runtime_error("worker " + std::to_string(w)
                               + " ended the fit: "
                               + net::printable_lines(said[w].substr(1)));
    if (said[w] == "i")
      end_ = fit_end::interrupted;
  }
}

void fit_loop::hear(const commit_record& x) {
  // An exception of a callback must not make the replicas diverge: all of them
  // finish the steps that were granted, the same on each.
  try {
    on_commit(x);
  } catch (...) {
    if (!thrown_)
      thrown_ = std::current_exception();
    it_.strategy->members->stop();
  }
}

void fit_loop::on_commit(const commit_record& x) {
  if (bad_step_ && options_.on_nan == on_nan::stop)
    return; // Steps granted before the stop made no update.
  const auto now = clock::now();
  at_.totals.seconds +=
    std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  if (!std::isfinite(x.total.correct)) { // `train_step` reports it as NaN.
    bad_step_ = x.step;
    bad_what_ = std::isfinite(x.total.loss_sum) ? "a gradient" : "the loss";
    if (options_.on_nan == on_nan::stop)
      return it_.strategy->members->stop();
    log(log_level::warning, bad_what_ + " was not finite at step "
                              + std::to_string(x.step)
                              + "; its update was skipped");
  } else {
    at_.totals.add(x.total);
    shown_.step(x.total.examples, x.total.loss_sum, x.total.correct);
  }
  ++it_.steps;
  ++at_.at.index;
  it_.passes = at_.at.pass + 1;
  ++done_;
  tell_step(x);
  if (options_.stop && options_.stop->load(std::memory_order_relaxed)
      && end_ == fit_end::done) {
    end_ = fit_end::interrupted;
    it_.strategy->members->stop();
  }
}

void fit_loop::tell_step(const commit_record& x) {
  if (options_.callbacks.empty())
    return;
  const auto n =
    static_cast<double>(std::max<std::uint64_t>(x.total.examples, 1));
  const step_record told{x.step, x.total.examples, x.total.loss_sum / n,
                         x.total.correct / n};
  for (const auto& one : options_.callbacks)
    if (one.on_step)
      one.on_step(told);
}

progress_state fit_loop::shown() const {
  progress_state x;
  x.epoch = at_.epochs_done() + 1;
  x.epochs = options_.epochs;
  x.step = at_.at.index;
  x.steps = at_.batches;
  x.examples = at_.totals.examples;
  if (x.examples > 0) {
    x.loss = at_.totals.loss_sum / static_cast<double>(x.examples);
    x.accuracy = at_.totals.correct / static_cast<double>(x.examples);
  }
  return x;
}

} // namespace troupe
