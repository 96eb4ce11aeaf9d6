#include "troupe/training/loop/exchange/train_step.hpp"

#include "troupe/models/metrics.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/feed/batch_inputs.hpp"
#include "troupe/training/loop/model/copy_update.hpp"
#include "troupe/training/loop/model/example_losses.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <string>

namespace troupe {

train_step::train_step(std::shared_ptr<model_state> model,
                       const fit_options& options,
                       std::shared_ptr<parameter_audit> audit)
  : shared_model_{std::move(model)},
    model_{*shared_model_},
    rules_{model_, options.schedule},
    on_nan_{options.on_nan},
    metrics_{metrics_of(*model_.loss, options.metrics)},
    class_weights_{options.class_weights},
    trained_{model_, options},
    exchange_{gradient_exchange::make(model_, rules_, trained_,
                                      metrics_.sum_count(), std::move(audit))},
    totals_(2 * model_.strategy->group->max_steps_ahead() + 2) {
  for (const auto i : trained_.dense())
    dense_variables_.push_back(model_.variables()[i]);
  for (std::uint32_t id = 0; id < model_.model_parameters.replicas(); ++id) {
    auto& self = replicas_.emplace_back(model_.strategy->device_of(id));
    self.step.index = id;
    self.step.report = [this, &self](const auto& found, step_metrics& into) {
      report(self, found, into);
    };
    self.steps_done = model_.steps;
    self.on_gradient_complete = [this, &self](std::size_t i) {
      exchange_->on_gradient(self.step, trained_.dense()[i]);
    };
  }
  if (options.graph == graph_capture::on && exchange_->supports_graphs()
      && model_.net.categories() == 0) // the categories are on the CPU
    for (auto& one : replicas_)
      one.graph.emplace(model_.strategy->device_of(one.step.index),
                        graph_failures_);
  for (auto& [step, total] : totals_)
    total.reset(metrics_.sum_count());
}

void train_step::operator()(step_context& step) {
  auto& self = replicas_[model_.strategy->placement.job.index_of(step.replica)];
  step.report.reset(metrics_.sum_count());
  if (self.stopped)
    return; // All replicas stopped at the same step.
  const auto read = feed_->batch_of_step(step.step, self.step.index);
  const auto rows = read.rows.batch_of_replica(step.replica, step.replicas);
  current_context().random = {model_.seed, step.replica, step.step, 0};
  self.step.context = &step;
  self.step.examples = read.rows.global_rows;
  self.step.is_loss_finite = true;
  forward_and_backward(
    self, rows, read.on_device.batch_of_replica(step.replica, step.replicas));
  feed_->copy_ahead(step.step);
  const auto done = exchange_->update(self.step);
  self.step.computed = {};
  self.labels = {};
  const bool updated = done.is_finite && done.copies_agree;
  keep_total(step.step, done.metrics, updated);
  self.stopped = self.stopped || !done.copies_agree; // the step is made again
  record(self, updated);
  if (done.error)
    std::rethrow_exception(done.error);
  exchange_->end(self.step, self.steps_done, self.stopped);
}

void train_step::forward_and_backward(replica& self, const batch& rows,
                                      const batch& on_device) {
  if (rows.rows() == 0)
    return exchange_->begin_without_examples(self.step);
  const sharing_scope activations_are_not_contributed{false};
  self.labels = rows.labels;
  const auto class_weights = weights_of_classes(rows.labels, class_weights_);
  if (self.graph)
    self.step.computed = self.graph->run(
      on_device, class_weights, [&](const batch& read, const tensor& weights) {
        return compute(self, read, weights);
      });
  else
    compute(self, on_device, class_weights);
  if (!exchange_->contributes_in_backward_pass()
      && !exchange_->reports_in_update())
    report_now(self);
}

gradient_exchange::step_results
train_step::compute(replica& self, const batch& on_device,
                    const tensor& class_weights) {
  tape t;
  const auto outputs =
    model_.net.forward(inputs_of(on_device, model_.net,
                                 model_.strategy->device_of(self.step.index)),
                       model_.variables(), {.training = true});
  const auto losses =
    example_losses(*model_.loss, outputs, on_device, class_weights);
  const gradient_exchange::step_results results{losses.detach(),
                                                outputs.detach()};
  self.step.computed = results;
  if (exchange_->contributes_in_backward_pass())
    report_now(self);
  exchange_->begin(self.step);
  if (auto* tables = exchange_->tables())
    t.gradient_into_variables(losses, dense_variables_, tables->variables(),
                              tables->rows_of(self.step.index),
                              self.on_gradient_complete);
  else
    t.gradient_into_variables(losses, dense_variables_,
                              self.on_gradient_complete);
  return results;
}

void train_step::report_now(replica& self) {
  const auto& [losses, outputs] = self.step.computed;
  const gradient_exchange::step_results here{self.copies.start(losses),
                                             self.copies.start(outputs)};
  self.copies.record();
  self.copies.wait();
  auto& metrics = self.step.context->report;
  report(self, here, metrics);
  self.step.is_loss_finite = std::isfinite(metrics.sums[metric_list::loss_sum]);
  self.step.computed = {};
}

void train_step::report(const replica& self,
                        const gradient_exchange::step_results& found,
                        step_metrics& into) const {
  into.examples = static_cast<std::uint64_t>(found.losses.dims().front());
  into.sums[metric_list::loss_sum] = models::total(found.losses);
  metrics_.add(found.outputs, self.labels, into.sums);
}

void train_step::record(replica& self, bool updated) {
  auto& step = *self.step.context;
  if (!updated) {
    step.report.sums[metric_list::skipped] = 1;
    self.stopped = self.stopped || on_nan_ == on_nan::stop;
  }
  if (!self.stopped)
    self.steps_done = step.step + 1;
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
  if (totals_[step % totals_.size()].first != step)
    throw std::logic_error("the metrics of step " + std::to_string(step)
                           + " are not known");
  return totals_[step % totals_.size()].second;
}

void train_step::follow(std::uint64_t step, std::uint64_t examples, float rate,
                        std::uint64_t first, std::span<const float> sums) {
  const flush_denormals as_in_a_step;
  const auto rule = rules_.at(step, static_cast<std::int64_t>(examples), rate);
  const copy_update update{model_, 0};
  for (const auto& part : trained_.dense_ranges(first, first + sums.size()))
    update(rule, part, sums.data() + (part.begin - first));
}

std::uint64_t train_step::resync_replicas() {
  const auto furthest =
    std::ranges::max_element(replicas_, {}, &replica::steps_done);
  const auto behind = [&](const replica& x) {
    return x.steps_done < furthest->steps_done;
  };
  if (std::ranges::any_of(replicas_, behind)) {
    exchange_->replace_copies(furthest->step.index);
    for (auto& one : replicas_)
      one.steps_done = furthest->steps_done;
  }
  return furthest->steps_done;
}

} // namespace troupe
