#include "troupe/training/loop/train_step.hpp"

#include "troupe/models/metrics.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/batch_inputs.hpp"
#include "troupe/training/loop/example_losses.hpp"
#include "troupe/training/strategies/state_source.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

std::vector<bucket> buckets_of(const parameters& model_parameters) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < model_parameters.variables().size(); ++i)
    offsets.push_back(model_parameters.offset(i));
  return make_buckets(offsets, model_parameters.size(),
                      train_step::bucket_bytes / sizeof(float));
}

/// Returns true if no element is infinite or NaN.
/// @cost one read of the elements.
bool all_finite(const tensor& values) {
  const auto elements = values.data<float>();
  std::atomic<bool> finite = true;
  for_elements(elements.size(), [&](std::size_t begin, std::size_t end) {
    if (kernels().any_exceeds(elements.data() + begin, end - begin,
                              std::numeric_limits<float>::max()))
      finite = false;
  });
  return finite;
}

/// Returns for each variable whether the fit changes it.
/// @errors throws std::invalid_argument if it changes none.
std::vector<bool> trained_variables(const model_state& model,
                                    const fit_options& options) {
  std::vector<bool> trained;
  for (const auto& one : model.variables())
    trained.push_back(!options.trainable || options.trainable(one));
  if (std::ranges::find(trained, true) == trained.end() && !trained.empty())
    throw std::invalid_argument("`trainable` selects none of the "
                                + std::to_string(trained.size())
                                + " variables; select at least one");
  return trained;
}

/// Moves the tables out of the trained variables.
/// @returns their numbers.
std::vector<std::size_t> take_tables(const model_state& model,
                                     std::vector<bool>& trained) {
  std::vector<std::size_t> tables;
  for (std::size_t i = 0; i < trained.size(); ++i)
    if (trained[i] && model.net.parameters()[i].is_table) {
      tables.push_back(i);
      trained[i] = false;
    }
  return tables;
}

/// @errors throws std::invalid_argument if `fit` cannot train a model with
///         tables in this job.
void check_tables(const model_state& model) {
  const auto& all = model.net.parameters();
  const auto table = std::ranges::find(all, true, &parameter_spec::is_table);
  if (table == all.end())
    return;
  const auto reject = [&](const char* where, const char* remedy) {
    throw std::invalid_argument(
      "the model \"" + model.net.name() + "\" has the table \"" + table->name
      + "\", of which fit updates the rows that occur in a step, but not "
      + where + "; " + remedy);
  };
  if (!model.strategy->is_one_process || model.model_parameters.copies() > 1)
    reject("in a job of several processes",
           "train it in one process, with any number of replicas");
  if (model.strategy->tensor_device().kind != device_kind::cpu)
    reject("on a device", "train it on the CPU");
}

/// Returns the ranges of elements in [begin, end) that belong to trained
/// variables, or to frozen ones.
std::vector<element_range> ranges_of(const parameters& all,
                                     const std::vector<bool>& trained,
                                     bool is_trained, std::size_t begin,
                                     std::size_t end) {
  std::vector<element_range> ranges;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto first = all.offset(i);
    const auto last =
      i + 1 < trained.size() ? all.offset(i + 1) : std::size_t{all.size()};
    const element_range one{std::max(first, begin), std::min(last, end)};
    if (trained[i] != is_trained || one.begin >= one.end)
      continue;
    if (!ranges.empty() && ranges.back().end == one.begin)
      ranges.back().end = one.end;
    else
      ranges.push_back(one);
  }
  return ranges;
}

} // namespace

train_step::train_step(std::shared_ptr<model_state> model,
                       const fit_options& options,
                       std::shared_ptr<parameter_audit> audit)
  : shared_model_{std::move(model)},
    model_{*shared_model_},
    schedule_{options.schedule},
    on_nan_{options.on_nan},
    metrics_{metrics_of(*model_.loss, options.metrics)},
    class_weights_{options.class_weights} {
  check_tables(model_);
  const auto& all = model_.model_parameters;
  auto trained = trained_variables(model_, options);
  auto tables = take_tables(model_, trained);
  trained_ranges_ = ranges_of(all, trained, true, 0, all.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (trained[i])
      trained_.push_back(all.variables()[i]);
    (trained[i] ? trained_index_ : frozen_index_).push_back(i);
  }
  for (std::uint32_t id = 0; id < all.replicas(); ++id) {
    auto& self = replicas_.emplace_back();
    self.gradient = all.gradients(id);
    self.steps_done = model_.steps;
    self.on_gradient_complete = [this, &self](std::size_t parameter) {
      complete(self, trained_index_[parameter]);
    };
  }
  const bool is_alone = model_.strategy->is_one_process;
  gathers_metrics_ = !is_alone;
  if (!is_alone)
    audit_ = std::move(audit);
  if (all.copies() == 1 && is_alone) {
    shared_ = shared_update::make(model_, trained_ranges_, std::move(tables));
    shared_metrics_.resize(all.replicas());
    for (auto& one : shared_metrics_)
      one.reset(metrics_.sum_count());
  } else {
    prepare_buckets(trained);
  }
  if (!is_alone || shared_)
    totals_.resize(2 * model_.strategy->group->max_steps_ahead() + 2);
  for (auto& [step, total] : totals_)
    total.reset(metrics_.sum_count());
}

void train_step::prepare_buckets(const std::vector<bool>& trained) {
  const auto& all = model_.model_parameters;
  const auto cut = buckets_of(all);
  frozen_ranges_ = ranges_of(all, trained, false, 0, all.size());
  for (const auto& one : cut)
    update_ranges_.push_back(ranges_of(all, trained, true, one.begin, one.end));
  for (std::uint32_t id = 0; id < replicas_.size(); ++id) {
    auto& self = replicas_[id];
    self.values = all.values(id);
    self.update.emplace(model_, id);
    const bool is_on_host = self.gradient.device().kind == device_kind::cpu;
    const auto contributed =
      is_on_host ? self.gradient : tensor{self.gradient.spec()};
    for (const auto& b : cut)
      self.bucket_gradients.push_back(contributed.range(b.begin, b.end));
    self.sums.resize(cut.size());
    const auto sums = metrics_.sum_count();
    const auto report = audit_ ? parameter_audit::report_values : 0;
    self.own_metrics = tensor::zeros(
      {static_cast<std::int64_t>(1 + sums + report)}, dtype::float64);
    self.reports.resize(audit_ ? model_.strategy->replicas : 0);
    self.metrics.resize(model_.strategy->replicas);
    for (auto& one : self.metrics)
      one.reset(sums);
    self.tracker = {cut, all.variables().size()};
  }
}

float train_step::learning_rate(std::uint64_t step) const {
  return schedule_ ? schedule_->at(step) : model_.rule.learning_rate();
}

rule_step train_step::rule_of(std::uint64_t step, std::int64_t examples,
                              float rate) const {
  return model_.rule.step_at(step + 1, rate, 1 / static_cast<float>(examples));
}

void train_step::complete(replica& self, std::size_t parameter) {
  if (shared_) {
    const auto begin = model_.model_parameters.offset(parameter);
    const auto n = model_.variables()[parameter].dims().elements();
    self.finite_sums =
      self.finite_sums
      && shared_->part_has_finite_sums(self.gradient, {begin, begin + n});
    return;
  }
  self.tracker.on_gradient_ready(
    parameter, [&](std::uint32_t bucket) { contribute(self, bucket); });
}

void train_step::operator()(step_context& step) {
  auto& self = replicas_[model_.strategy->placement.job.index_of(step.replica)];
  step.report.reset(metrics_.sum_count());
  if (self.stopped)
    return; // All replicas stopped at the same step.
  self.step = &step;
  self.finite = self.finite_sums = true;
  const auto read = feed_->batch_of_step(step.step);
  const auto rows = read.batch_of_replica(step.replica, step.replicas);
  current_context().random = {model_.seed, step.replica, step.step, 0};
  self.tracker.reset();
  forward_and_backward(self, rows);
  step.report.examples = static_cast<std::uint64_t>(rows.rows());
  if (shared_)
    return update_shared(self, read.global_rows);
  const bool agrees = !gathers_metrics_ || gather_metrics(self);
  const bool good = sum(self) && agrees;
  if (gathers_metrics_)
    keep_total(step.step, self.metrics, good);
  const bool updates = good && read.global_rows > 0;
  const auto rate = updates ? learning_rate(step.step) : 0;
  if (updates)
    update_copy(self, rule_of(step.step, read.global_rows, rate));
  self.stopped = self.stopped || !agrees; // the step is made again
  record(self, good);
  publish(self, read.global_rows, rate, updates);
  for (auto& one : self.sums)
    one = {};
}

void train_step::set_zero_gradient(replica& self) {
  if (!shared_) {
    self.gradient.set_zero();
    for (std::size_t i = 0; i < model_.variables().size(); ++i)
      complete(self, i);
    return;
  }
  for (const auto& one : trained_ranges_)
    self.gradient.range(one.begin, one.end).set_zero();
  if (auto* tables = shared_->tables())
    tables->clear_rows(self.step->replica);
}

void train_step::forward_and_backward(replica& self, const batch& rows) {
  if (rows.rows() == 0)
    return set_zero_gradient(self);
  const sharing_scope activations_are_not_contributed{false};
  tape t;
  const auto outputs = model_.net.forward(
    inputs_of(rows, model_.net, model_.strategy->tensor_device()),
    model_.variables(), {.training = true});
  const auto losses =
    example_losses(*model_.loss, outputs, rows, class_weights_);
  const auto report = [&] {
    auto& sums = self.step->report.sums;
    sums[metric_list::loss_sum] = models::total(losses);
    metrics_.add(outputs, rows.labels, sums);
    self.finite = std::isfinite(sums[metric_list::loss_sum]);
  };
  // The last bucket says whether the loss is finite. Without buckets, a device
  // computes the gradients before the host waits for the outputs.
  if (!shared_)
    report();
  // In a bucket, the sum of a frozen gradient, or the NaN of a step that was
  // skipped, may have overwritten it.
  for (const auto& one : frozen_ranges_)
    self.gradient.range(one.begin, one.end).set_zero();
  if (!shared_)
    for (const auto i : frozen_index_)
      complete(self, i);
  if (auto* tables = shared_ ? shared_->tables() : nullptr)
    t.gradient_into_variables(losses, trained_, tables->variables(),
                              tables->rows_of(self.step->replica),
                              self.on_gradient_complete);
  else
    t.gradient_into_variables(losses, trained_, self.on_gradient_complete);
  if (shared_)
    report();
}

void train_step::update_shared(replica& self, std::int64_t examples) {
  using state = shared_update::gradient_state;
  auto& step = *self.step;
  self.finite_sums = self.finite_sums && shared_->has_finite_sums(self.gradient)
                     && shared_->tables_have_finite_sums(step.replica);
  const auto own = !self.finite       ? state::bad
                   : self.finite_sums ? state::finite_sums
                                      : state::unknown;
  // The barrier shows these metrics to the other replicas.
  shared_metrics_[step.replica] = step.report;
  // A schedule is user code, which need not return the same on each replica.
  const auto [good, rate] =
    shared_->wait_for_gradients(step, own, learning_rate(step.step));
  if (good && examples > 0) {
    const auto rule = rule_of(step.step, examples, rate);
    shared_->apply(rule);
    if (auto* tables = shared_->tables())
      tables->apply(rule);
  }
  keep_total(step.step, shared_metrics_, good);
  record(self, good);
  shared_->wait_for_end(step);
}

void train_step::record(replica& self, bool updated) {
  if (!updated) {
    self.step->report.sums[metric_list::skipped] = 1;
    self.stopped = self.stopped || on_nan_ == on_nan::stop;
  }
  if (!self.stopped)
    self.steps_done = self.step->step + 1;
}

void train_step::contribute(replica& self, std::uint32_t bucket) {
  const sharing_scope sums_are_shared{true};
  auto& contributed = self.bucket_gradients[bucket];
  if (!contributed.shares_storage_with(self.gradient)) {
    const auto& range = self.tracker.buckets()[bucket];
    contributed.copy_from(self.gradient.range(range.begin, range.end));
  }
  // If the loss is not finite, this replica sets the first element of its
  // gradient to NaN. The sum is then NaN on all replicas, and all skip the
  // update. The last bucket contains that element.
  if (!self.finite && bucket + 1 == self.bucket_gradients.size())
    contributed.mutable_data<float>()[0] =
      std::numeric_limits<float>::quiet_NaN();
  self.step->contribute_in_place(bucket, contributed);
}

/// Called when all buckets are contributed, so that the wait for the metrics is
/// part of the wait for the sums.
bool train_step::gather_metrics(replica& self) {
  const auto& report = self.step->report;
  const auto own = self.own_metrics.mutable_data<double>();
  own[0] = static_cast<double>(report.examples);
  std::ranges::copy(report.sums, own.begin() + 1);
  const bool audits = audit_ && audit_->is_due(self.step->step);
  const auto index =
    model_.strategy->placement.job.index_of(self.step->replica);
  if (audits)
    audit_->write_report(index, self.step->step,
                         own.subspan(1 + report.sums.size()));
  const auto all = self.step->gather(
    static_cast<std::uint32_t>(self.sums.size()), self.own_metrics);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto values = all[r].data<double>();
    auto& one = self.metrics[r];
    if (values.size() != own.size())
      throw std::logic_error("replica " + std::to_string(r) + " reported "
                             + std::to_string(values.size() - 1)
                             + " metric sums, but this replica has "
                             + std::to_string(own.size() - 1));
    one.examples = static_cast<std::uint64_t>(values[0]);
    const auto rest = values.subspan(1);
    std::ranges::copy(rest.first(one.sums.size()), one.sums.begin());
    if (audits)
      self.reports[r] = parameter_audit::read_report(
        static_cast<std::uint32_t>(r), rest.subspan(one.sums.size()));
  }
  return !audits || audit_->judge(self.step->step, index, self.reports);
}

void train_step::keep_total(std::uint64_t step,
                            std::span<const step_metrics> metrics,
                            bool updated) {
  const std::lock_guard hold{totals_lock_};
  auto& [number, total] = totals_[step % totals_.size()];
  number = step;
  sum_metrics(metrics, total);
  if (!updated) // each replica has skipped it
    total.sums[metric_list::skipped] = static_cast<double>(metrics.size());
}

step_metrics train_step::total_of(std::uint64_t step) const {
  const std::lock_guard hold{totals_lock_};
  if (totals_.empty() || totals_[step % totals_.size()].first != step)
    throw std::logic_error("the metrics of step " + std::to_string(step)
                           + " are not known");
  return totals_[step % totals_.size()].second;
}

bool train_step::sum(replica& self) {
  for (std::uint32_t b = 0; b < self.sums.size(); ++b)
    self.sums[b] = self.step->sum(b);
  self.step->begin_update();
  return std::ranges::all_of(self.sums, all_finite);
}

void train_step::update_copy(replica& self, const rule_step& rule) {
  for (std::size_t b = 0; b < update_ranges_.size(); ++b) {
    const auto* sum = self.sums[b].data<float>().data();
    const auto offset = self.tracker.buckets()[b].begin;
    for (const auto& range : update_ranges_[b])
      (*self.update)(rule, range, sum + (range.begin - offset));
  }
}

void train_step::publish(replica& self, std::int64_t examples, float rate,
                         bool updated) {
  const auto& source = model_.strategy->source;
  if (!source || !source->is_followed() || &self != &replicas_.front()
      || self.stopped)
    return;
  std::vector<tensor> state{self.values};
  state.insert(state.end(), model_.slots[0].begin(), model_.slots[0].end());
  std::vector<state_source::gradient_part> sums;
  for (std::size_t b = 0; b < self.sums.size(); ++b)
    sums.push_back({self.tracker.buckets()[b].begin, self.sums[b]});
  source->on_update({.steps = self.steps_done,
                     .is_skipped = !updated,
                     .examples = static_cast<std::uint64_t>(examples),
                     .learning_rate = rate,
                     .state = state,
                     .sums = sums});
}

void train_step::follow(std::uint64_t step, std::uint64_t examples, float rate,
                        std::uint64_t first, std::span<const float> sums) {
  const flush_denormals as_in_a_step;
  const auto rule = rule_of(step, static_cast<std::int64_t>(examples), rate);
  const copy_update update{model_, 0};
  for (const auto& bucket : update_ranges_)
    for (const auto& one : bucket) {
      const element_range part{
        std::max<std::size_t>(one.begin, first),
        std::min<std::size_t>(one.end, first + sums.size())};
      if (part.begin < part.end)
        update(rule, part, sums.data() + (part.begin - first));
    }
}

std::uint64_t train_step::resync_replicas() {
  const auto furthest =
    std::ranges::max_element(replicas_, {}, &replica::steps_done);
  const auto behind = [&](const replica& x) {
    return x.steps_done < furthest->steps_done;
  };
  if (!shared_ && std::ranges::any_of(replicas_, behind)) {
    const auto source = static_cast<std::size_t>(furthest - replicas_.begin());
    model_.broadcast_copy(static_cast<std::uint32_t>(source));
    for (auto& one : replicas_)
      one.steps_done = furthest->steps_done;
  }
  return furthest->steps_done;
}

} // namespace troupe
