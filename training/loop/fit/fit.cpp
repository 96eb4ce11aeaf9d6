#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/loop/audit/worker_consistency.hpp"
#include "troupe/training/loop/feed/batch_feed.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/loop/fit/resumed_position.hpp"
#include "troupe/training/loop/model/finite_weights.hpp"
#include "troupe/training/loop/model/fit_checks.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/loop/options/monitored_value.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace troupe {

namespace {

bool is_set(const std::atomic<bool>* flag) {
  return flag && flag->load(std::memory_order_relaxed);
}

/// Tells recoveries of the job whether the flags of a fit are set. A worker
/// that wants to leave need not wait for a recovery, either.
class stop_flags {
public:
  stop_flags(std::shared_ptr<strategy_state> state, const fit_options& options)
    : state_{std::move(state)},
      group_{dynamic_cast<recovering_group*>(state_->group.get())} {
    if (group_)
      of_outer_fit_ =
        group_->set_stop_request([stop = options.stop, leave = options.leave] {
          return is_set(stop) || is_set(leave);
        });
  }
  ~stop_flags() {
    if (group_)
      group_->set_stop_request(std::move(of_outer_fit_));
  }
  stop_flags(const stop_flags&) = delete;
  stop_flags& operator=(const stop_flags&) = delete;

private:
  const std::shared_ptr<strategy_state> state_; ///< Owns the group.
  recovering_group* const group_; ///< Null: the view cannot change.
  /// Request of a fit one of whose callbacks has called this one. Null: none.
  std::function<bool()> of_outer_fit_;
};

} // namespace

history fit(const std::shared_ptr<model_state>& state,
            const data::dataset& batches, const fit_options& options,
            std::function<void()> save_model) {
  const stop_flags flags{state->strategy, options};
  reserve_descriptors(); // to save the model in any case
  std::shared_ptr<fit_loop> loop;
  check_for_all_workers(*state, "fit", [&] {
    loop = std::make_shared<fit_loop>(state, batches, options,
                                      std::move(save_model));
  });
  state->strategy->observe(loop);
  return loop->run();
}

namespace {

void check_early_stopping(const fit_options& options,
                          const metric_list& metrics) {
  const auto& early = options.early_stopping;
  if (early && monitored_value_of(*early, metrics).is_validation
      && !options.validation)
    throw std::invalid_argument("early stopping monitors validation data, but "
                                "there is none; pass some or monitor the loss");
}

/// Checks that every replica gets an example of a whole batch.
void check_shares(const model_state& state, std::int64_t batch_rows,
                  const fit_options& options) {
  const auto replicas = state.strategy->replicas;
  const auto& shares = options.replica_shares;
  check_replica_shares(shares, replicas);
  for (std::uint32_t r = 0; r < shares.size(); ++r)
    if (rows_of_replicas(batch_rows, r, r + 1, replicas, shares).size() == 0)
      throw std::invalid_argument(
        "replica_shares " + shares_text(shares) + ": a batch size of "
        + std::to_string(batch_rows) + " leaves replica " + std::to_string(r)
        + " without an example; give larger batches, or shares that differ "
          "less");
}

void check(const model_state& state, const data::dataset& batches,
           const fit_options& options, const metric_list& metrics) {
  check_fit(state.net, *state.loss, state.steps, batches, options);
  check_early_stopping(options, metrics);
  check_batch_rows(batches, state.strategy->replicas);
  check_shares(state, batches.element().dims.front(), options);
}

std::string exception_message(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

bool is_call_mismatch(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const job_error& e) {
    return troupe::is_call_mismatch(e);
  } catch (...) {
    return false;
  }
}

/// While it exists, steps of a fit may change the model.
struct has_steps_guard {
  explicit has_steps_guard(model_state& model) : model{model} {
    model.has_fit_steps = true;
  }
  ~has_steps_guard() { model.has_fit_steps = false; }
  has_steps_guard(const has_steps_guard&) = delete;
  has_steps_guard& operator=(const has_steps_guard&) = delete;
  model_state& model;
};

/// Returns the process that wants to leave, as it has told the others.
std::uint64_t incarnation_in(const std::string& outcome) {
  std::uint64_t out = 0;
  const auto* const end = outcome.data() + outcome.size();
  const auto [last, error] = std::from_chars(outcome.data() + 1, end, out);
  if (error != std::errc{} || last != end)
    throw job_error(ec::protocol, "a worker sent a malformed end of a run");
  return out;
}

} // namespace

fit_loop::fit_loop(std::shared_ptr<model_state> state,
                   const data::dataset& batches, const fit_options& options,
                   std::function<void()> save_model)
  : shared_model_{std::move(state)},
    model_{*shared_model_},
    batches_{batches.prefetch(options.prefetch.value_or(
      batches.prefetched().value_or(default_read_ahead)))},
    options_{options},
    save_model_{std::move(save_model)},
    step_view_{model_.strategy->views} {
  if (options.audit_steps > 0)
    audit_ = std::make_shared<parameter_audit>(model_, options);
  step_ = std::make_shared<train_step>(shared_model_, options, audit_);
  check(model_, batches, options, step_->metrics());
  step_values_ = epoch_totals{}.values(step_->metrics());
  position_.metrics = step_->metrics().description();
  position_.first_epoch = options.first_epoch.value_or(model_.next_epoch);
  position_.next_batch = {position_.first_epoch, 0};
  position_.batches = *batches.size();
  position_.replicas = model_.strategy->replicas;
  position_.replica_shares = options.replica_shares;
  if (options.resume || !model_.strategy->is_one_process)
    identify_data();
  const bool continues =
    options.resume && model_.interrupted && model_.interrupted->is_complete;
  if (options.resume)
    position_ = resumed_position(
      model_.interrupted, position_,
      {options.first_epoch, options.epochs, options.accept_replicas});
  const auto& early = options.early_stopping;
  // The weights of a complete fit are its best ones, or it keeps none.
  if (continues && early && early->restore_best && position_.best_epoch > 0
      && position_.best_epoch == position_.epochs_done())
    position_.best_weights = model_.model_parameters.values(0).clone();
  model_.interrupted.reset();
  model_.is_suspect = false;
}

void fit_loop::identify_data() {
  if (!position_.data)
    position_.data = identify(batches_);
}

history fit_loop::run() {
  try {
    verify_workers_match(model_, batches_, options_, position_);
    return run_epochs();
  } catch (const job_error&) { // the state can be saved and resumed
    note_deviation();
    if (!model_.strategy->lacks_state && !model_.is_suspect)
      model_.interrupted = position_;
    throw;
  } catch (...) {
    note_deviation();
    throw;
  }
}

void fit_loop::note_deviation() {
  model_.is_suspect =
    !deviation_.empty() || (audit_ && !audit_->deviation().empty());
}

history fit_loop::run_epochs() {
  // A callback may save the model at the end of an epoch that meets the
  // condition of early stopping. A fit resumed from this file ends at once.
  auto end = should_stop_early() ? fit_end::stopped_early : fit_end::done;
  while (end == fit_end::done && position_.epochs_done() < options_.epochs) {
    end = run_epoch();
    if (end == fit_end::left)
      return {position_.epochs, end, position_.best_epoch};
    if (position_.next_batch.index == position_.batches)
      if (!end_epoch())
        end = fit_end::stopped_early; // Also replaces `interrupted`.
    if (end == fit_end::done && position_.epochs_done() < options_.epochs)
      save_if_due();
  }
  if (position_.epochs_done() == options_.epochs
      && end != fit_end::stopped_early)
    // An interruption after the last step leaves the fit complete.
    end = fit_end::done;
  model_.interrupted = last_position(end);
  if (end == fit_end::done || end == fit_end::stopped_early)
    restore_best();
  check_finite_weights(model_);
  return {position_.epochs, end, position_.best_epoch};
}

std::optional<fit_position> fit_loop::last_position(fit_end end) {
  const bool is_unfinished =
    end == fit_end::interrupted || end == fit_end::max_steps;
  const bool restores_best =
    position_.best_weights && position_.best_epoch < position_.epochs.size();
  if (!is_unfinished && (end != fit_end::done || restores_best))
    return std::nullopt;
  // A resumed fit has it too, so both write the same file.
  identify_data();
  return is_unfinished ? position_ : position_.completed();
}

fit_end fit_loop::run_epoch() {
  if (!std::exchange(continues_epoch_, false))
    begin_progress();
  end_ = fit_end::done;
  bad_step_.reset();
  auto steps =
    std::min(position_.batches - position_.next_batch.index, steps_to_save());
  if (options_.max_steps > 0)
    steps = std::min(steps, options_.max_steps - steps_done_);
  if (steps > 0) {
    const auto end = model_.steps + steps;
    do {
      train(end);
    } while (heal());
  }
  if (model_.strategy->placement.process == 0)
    rates_.warn(steps_done_, model_.steps, options_.schedule);
  if (bad_step_ && options_.on_nan == on_nan::stop)
    throw std::runtime_error(bad_quantity_ + " was not finite at step "
                             + std::to_string(*bad_step_)
                             + "; the weights are those before that step (try "
                               "a smaller learning rate, "
                               "or on_nan skip, in the tool --on-nan skip)");
  if (end_ == fit_end::done && options_.max_steps > 0
      && steps_done_ == options_.max_steps)
    end_ = fit_end::max_steps;
  continues_epoch_ = position_.next_batch.index < position_.batches;
  return end_;
}

void fit_loop::train(std::uint64_t end) {
  const auto first = updated_ = model_.steps;
  if (audit_)
    audit_->begin_epoch(first);
  // A process that joins gets the values of the others in this call.
  model_.strategy->processed_callbacks = {.call = model_.strategy->all_calls()};
  std::uint64_t next = 0;
  job_call call;
  call.name = "fit (the steps of an epoch)";
  call.run = [&] {
    next = run_until(end);
    updated_ = model_.steps;
    if (audit_)
      deviation_ = audit_->deviation();
    return encode_text(next, bad_step_.has_value(), bad_quantity_, deviation_,
                       position_text());
  };
  call.complete = [&](const std::string& result) {
    deliver_commits();
    bool is_bad = false;
    std::string position;
    if (!decode_text(result, next, is_bad, bad_quantity_, deviation_, position))
      throw job_error(ec::protocol,
                      "a worker sent a malformed result of a fit");
    if (model_.strategy->lacks_state) {
      adopt(read_position(position));
      if (is_bad)
        bad_step_ = model_.steps;
    }
    const bool is_short =
      (bad_step_ && options_.on_nan == on_nan::stop) || !deviation_.empty();
    if (is_short ? next <= model_.steps : next != model_.steps)
      throw job_error(ec::protocol,
                      "the other workers have made another number of steps");
  };
  call.steps = [&] { return updated_ - first; };
  call.report = [&] { return position_text(); };
  call.resume = [&](const call_report& latest) {
    deliver_commits();
    on_state_copied(latest);
    follower_.reset();
  };
  call.prepare = [&] { return copy_ahead(); };
  call.copied_ahead =
    [&](const call_report& latest) -> const placement_observer* {
    return is_copied_ahead(latest) ? &model_ : nullptr;
  };
  const auto& source = model_.strategy->source;
  try {
    const has_steps_guard steps{model_};
    make_call(model_.strategy, call);
  } catch (...) {
    if (source)
      source->end();
    add_known_commits();
    throw;
  }
  if (source)
    source->end();
  follower_.reset();           // another process has completed the call
  step_->set_batches(nullptr); // Ends the thread that reads.
  // Any worker may have stopped the run. If that one is lost, the fit goes on.
  synchronize_workers(workers_end::run, [this] { repeat_step_callbacks(); });
}

std::uint64_t fit_loop::run_until(std::uint64_t end) {
  const bool is_new_view = step_view_ != model_.strategy->views;
  if (is_new_view) {
    step_ = std::make_shared<train_step>(shared_model_, options_, audit_);
    begin_progress(); // the chief may be another process
  }
  if (model_.steps == end)
    return end; // only the last commits were missing
  step_view_ = model_.strategy->views;
  if (!is_new_view)
    model_.forget_replacements();
  if (audit_)
    audit_->begin_run(model_.steps, is_new_view,
                      std::exchange(has_received_state_, false));
  mark_position();
  step_->set_batches(std::make_shared<batch_feed>(
    batches_, position_.next_batch, model_.steps, *model_.strategy->group,
    options_.replica_shares, model_.strategy->tensor_devices()));
  // A stop in a failed run had no effect if the run was repeated.
  end_ = fit_end::done;
  wants_to_leave_ = false;
  repeat_step_callbacks();
  if (options_.on_nan == on_nan::stop)
    bad_step_.reset();
  last_commit_ = clock::now();
  if (copies_ahead(*model_.strategy))
    model_.strategy->source->begin(model_.strategy->all_calls(),
                                   model_.model_parameters.size(),
                                   1 + model_.rule.slots());
  run_request request;
  request.first_step = request.call.user_step = model_.steps;
  request.steps = end - model_.steps;
  request.step = [step = step_](step_context& at) { (*step)(at); };
  request.on_commit = [this](const commit_record& x) { on_commit_guarded(x); };
  // `join_timeout` also extends the time that this worker waits for the next
  // commit. If a callback of another worker is slow, the chief stops granting
  // steps, and no commit follows until that callback returns.
  request.join_timeout = model_.strategy->callback_timeout;
  try {
    return run_steps(model_.strategy, request);
  } catch (...) {
    // After a failed run `step_` keeps its batch feed, because a replica that
    // is stuck in a step may still read from the feed.
    keep_commits();
    throw;
  }
}

void fit_loop::keep_commits() {
  if (const auto& source = model_.strategy->source)
    source->pause();
  updated_ = step_->resync_replicas();
  known_commits_.clear();
  for (auto s = model_.steps; s < updated_; ++s) {
    auto& one = known_commits_.emplace_back();
    one.step = s;
    one.total = step_->total_of(s);
  }
  if (!known_commits_.empty())
    last_total_ = known_commits_.back().total;
  // In the next view another process may be the chief.
  if (is_callback_chief_)
    for (const auto& one : std::exchange(known_commits_, {}))
      on_commit_guarded(one);
}

void fit_loop::add_known_commits() {
  for (const auto& one : std::exchange(known_commits_, {}))
    if (!(one.total.sums[metric_list::skipped] > 0))
      position_.totals.add(one.total);
  if (updated_ == model_.steps)
    return;
  position_.next_batch.index += updated_ - model_.steps;
  model_.steps = updated_;
  model_.next_epoch = position_.next_batch.epoch + 1;
}

void fit_loop::deliver_commits() {
  repeat_step_callbacks();
  for (const auto& one : std::exchange(known_commits_, {}))
    on_commit_guarded(one);
}

std::vector<tensor> fit_loop::state_tensors(const std::string&) {
  if (!position_.best_weights)
    return {};
  return {position_.best_weights};
}

std::string fit_loop::position_text() const {
  auto totals = position_.totals;
  for (const auto& one : known_commits_)
    if (!(one.total.sums[metric_list::skipped] > 0))
      totals.add(one.total);
  return encode_text(updated_, last_total_.examples, last_total_.sums,
                     totals.examples, totals.sums, totals.seconds);
}

fit_loop::remote_position
fit_loop::read_position(const std::string& text) const {
  remote_position out;
  if (!decode_text(text, out.steps, out.last.examples, out.last.sums,
                   out.totals.examples, out.totals.sums, out.totals.seconds)
      || out.steps < model_.steps
      || out.steps - model_.steps
           > position_.batches - position_.next_batch.index)
    throw job_error(ec::protocol,
                    "a worker sent a malformed position of a fit");
  return out;
}

void fit_loop::adopt(const remote_position& other) {
  const auto added = other.steps - model_.steps;
  position_.totals = other.totals;
  last_total_ = other.last;
  position_.next_batch.index += added;
  steps_done_ += added;
  if (added > 0)
    rates_.add_unknown();
  model_.steps = updated_ = other.steps;
  if (added > 0)
    model_.next_epoch = position_.next_batch.epoch + 1;
}

void fit_loop::on_state_copied(const call_report& latest) {
  const auto other = read_position(latest.text);
  if (model_.strategy->lacks_state) // callbacks of these steps were called
    return adopt(other);
  if (other.steps == model_.steps)
    return;
  commit_record record;
  record.step = model_.steps;
  record.total = last_total_ = other.last;
  if (other.steps != model_.steps + 1
      || record.total.sums.size() != step_->metrics().sum_count())
    throw job_error(ec::protocol, "a worker is more than one step ahead");
  on_commit_guarded(record);
  updated_ = model_.steps;
}

std::vector<fit_loop::worker_outcome> fit_loop::gather_ends(bool leaves,
                                                            workers_end of) {
  const auto incarnation = model_.strategy->group->incarnation();
  if (leaves && (incarnation == 0 || is_to_stop()))
    end_ = fit_end::interrupted;
  return gather_outcomes(thrown_ ? "!" + exception_message(thrown_)
                         : end_ == fit_end::interrupted ? "i"
                         : leaves ? "l" + std::to_string(incarnation)
                                  : "",
                         of);
}

bool fit_loop::lack_chief(workers_end of,
                          const std::vector<worker_outcome>& outcomes) {
  // If the callbacks of an epoch have failed on a worker, it could not make
  // the calls of those that are repeated.
  return std::ranges::none_of(outcomes, &worker_outcome::is_chief)
         && (of == workers_end::run
             || std::ranges::none_of(outcomes, [](const worker_outcome& x) {
                  return x.end.starts_with('!');
                }));
}

/// If a callback threw or the stop flag was set on one worker, the fit ends on
/// all workers. The fit goes on without those that want to leave, but it ends
/// on all workers if all want to.
void fit_loop::synchronize_workers(
  workers_end of, const std::function<void()>& repeat_callbacks) {
  if (thrown_ && is_call_mismatch(thrown_)) // all workers know it
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (thrown_)
    leave_if_device_lost(*model_.strategy, thrown_);
  const bool leaves = std::exchange(wants_to_leave_, false);
  std::vector<worker_outcome> outcomes;
  try {
    outcomes = gather_ends(leaves, of);
    while (lack_chief(of, outcomes)) {
      repeat_callbacks();
      outcomes = gather_ends(leaves, of);
    }
  } catch (const job_error&) {
    if (thrown_) // it may be the reason why the others make another call
      std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (!leaves || !model_.strategy->group->has_left())
      throw;
    report_leave(*model_.strategy);
    end_ = fit_end::left;
    return;
  }
  forget_processed(model_.steps);
  if (thrown_)
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  if (!deviation_.empty())
    end_ = fit_end::done; // the last steps are made again, or the fit fails
  std::vector<std::uint64_t> leavers;
  for (const auto& [worker, is_chief, end] : outcomes) {
    if (end.starts_with('!'))
      throw std::runtime_error(
        worker + " ended the fit: " + net::printable_lines(end.substr(1)));
    if (!deviation_.empty())
      continue;
    if (end == "i")
      end_ = fit_end::interrupted;
    if (end.starts_with('l'))
      leavers.push_back(incarnation_in(end));
  }
  if (leavers.size() == outcomes.size())
    end_ = fit_end::interrupted; // no worker would stay
  else if (!leavers.empty() && end_ == fit_end::done && has_further_steps())
    if (let_leave(model_.strategy, leavers))
      end_ = fit_end::left;
}

bool fit_loop::has_further_steps() const {
  if (bad_step_ && options_.on_nan == on_nan::stop)
    return false;
  if (options_.max_steps > 0 && steps_done_ == options_.max_steps)
    return false;
  return position_.next_batch.index < position_.batches
         || position_.epochs_done() + 1 < options_.epochs;
}

void fit_loop::on_commit_guarded(const commit_record& commit) {
  // An exception of a callback must not make the replicas diverge. Therefore it
  // is kept, and every replica still finishes the same granted steps.
  try {
    on_commit(commit);
  } catch (...) {
    if (!thrown_)
      thrown_ = std::current_exception();
  }
  if (thrown_)
    model_.strategy->group->stop();
}

void fit_loop::on_commit(const commit_record& commit) {
  if (bad_step_ && options_.on_nan == on_nan::stop)
    return; // The steps granted before the stop make no update.
  if (audit_ && audit_->deviates_at(commit.step))
    return model_.strategy->group->stop();
  const auto& sums = commit.total.sums;
  if (sums.size() != step_->metrics().sum_count())
    throw std::runtime_error("step " + std::to_string(commit.step) + " has "
                             + std::to_string(sums.size())
                             + " metric sums, but this worker expects "
                             + std::to_string(step_->metrics().sum_count()));
  const auto now = clock::now();
  position_.totals.seconds +=
    std::chrono::duration<double>(now - std::exchange(last_commit_, now))
      .count();
  if (sums[metric_list::skipped] > 0) {
    bad_step_ = commit.step;
    bad_quantity_ =
      std::isfinite(sums[metric_list::loss_sum]) ? "a gradient" : "the loss";
    if (options_.on_nan == on_nan::stop)
      return model_.strategy->group->stop();
    log(log_level::warning, bad_quantity_ + " was not finite at step "
                              + std::to_string(commit.step)
                              + "; its update was skipped");
  } else {
    position_.totals.add(commit.total);
    progress_->step(commit.total.examples, sums);
  }
  if (rates_.asks_for_more())
    rates_.add(step_->learning_rate(commit.step));
  ++model_.steps;
  ++position_.next_batch.index;
  model_.next_epoch = position_.next_batch.epoch + 1;
  ++steps_done_;
  mark_position();
  call_step_callbacks(commit);
  keep_until_processed(commit);
  check_flags();
}

void fit_loop::check_flags() {
  if (end_ != fit_end::done || wants_to_leave_)
    return;
  if (is_to_stop())
    end_ = fit_end::interrupted;
  else if (is_set(options_.leave))
    wants_to_leave_ = true;
  else
    return;
  model_.strategy->group->stop();
}

/// True if the flags of this worker end the fit on all workers.
bool fit_loop::is_to_stop() const {
  const auto& launcher = model_.strategy->launcher;
  return is_set(options_.stop)
         || (is_set(options_.leave) && launcher && launcher->is_job_ended());
}

/// Only the chief prints.
void fit_loop::begin_progress() {
  const bool is_chief = model_.strategy->placement.process == 0;
  progress_.emplace(is_chief ? options_.progress : progress_style::none);
  progress_->begin(progress_snapshot(), step_->metrics(),
                   position_.totals.sums);
}

progress_state fit_loop::progress_snapshot() const {
  progress_state snapshot;
  snapshot.epoch = position_.epochs_done() + 1;
  snapshot.epochs = options_.epochs;
  snapshot.step = position_.next_batch.index;
  snapshot.steps = position_.batches;
  snapshot.examples = position_.totals.examples;
  return snapshot;
}

} // namespace troupe
