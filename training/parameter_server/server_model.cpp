#include "troupe/training/parameter_server/server_model.hpp"

#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/example_losses.hpp"
#include "troupe/training/loop/metric_list.hpp"
#include "troupe/training/loop/model_state.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/support/sha256.hpp"

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// What a worker computes with: its copy of the parameters, and gradients.
struct worker_copy {
  parameters own;
};

/// Returns the initial values of all parameters, [size] float32.
tensor initial_values(const models::network& net, std::uint64_t seed) {
  parameters all{net.parameters()};
  net.initialize(all, seed);
  return all.values();
}

/// @errors throws std::invalid_argument if the dataset is endless, has no batch
///         or does not fit the network.
std::uint64_t check(const models::network& net, const data::dataset& batches) {
  const auto count = batches.size();
  if (!count || *count == 0)
    throw std::invalid_argument(std::string{"the dataset of a server_model "}
                                + (count ? "has no batch" : "is endless"));
  net.check_batch(batches.element().dims);
  return *count;
}

} // namespace

struct server_model::impl {
  impl(const parameter_server_strategy& strategy, const std::string& name,
       const models::model_description& architecture, const update_rule& rule,
       const model_options& options)
    : net{architecture, options.precision},
      loss{&models::find_loss(options.loss)},
      seed{options.seed},
      layout{net.parameters()},
      values{strategy.make_variable(name, initial_values(net, seed))},
      optimizer{strategy, rule},
      copies{[this](std::uint32_t) {
        return worker_copy{parameters{net.parameters()}};
      }} {}

  /// Reads the parameters into the copy of the calling worker.
  parameters& pull() {
    auto& own = copies.local().own;
    own.values().copy_from(values.value());
    return own;
  }

  /// The closure of a step.
  step_metrics train(const batch& rows, std::uint64_t step,
                     const metric_list& metrics,
                     const server_fit_options& options) {
    step_metrics report;
    report.reset(metrics.sum_count());
    report.examples = static_cast<std::uint64_t>(rows.rows());
    if (report.examples == 0)
      return report;
    auto& own = pull();
    current_context().random = {seed, 0, step, 0};
    tape t;
    const auto outputs =
      net.forward(rows.inputs, own.variables(), {.training = true});
    const auto losses =
      example_losses(*loss, outputs, rows, options.class_weights);
    report.sums[metric_list::loss_sum] = models::total(losses);
    metrics.add(outputs, rows.labels, report.sums);
    t.gradient_into_variables(losses, own.variables());
    if (!std::isfinite(report.sums[metric_list::loss_sum])) {
      if (options.on_nan == on_nan::stop)
        throw std::runtime_error("the loss of step " + std::to_string(step)
                                 + " is not finite");
      report.sums[metric_list::skipped] = 1;
      return report;
    }
    update_options how{.scale = 1 / static_cast<float>(report.examples)};
    if (options.schedule)
      how.learning_rate = options.schedule->at(step);
    const std::vector<tensor> gradient{own.gradients()};
    optimizer.apply(gradient, std::span{&values, 1}, how);
    return report;
  }

  /// The closure of a batch of an evaluation.
  step_metrics score(const batch& rows, const metric_list& metrics) {
    step_metrics report;
    report.reset(metrics.sum_count());
    report.examples = static_cast<std::uint64_t>(rows.rows());
    if (report.examples == 0)
      return report;
    const auto outputs = net.forward(rows.inputs, pull().variables());
    report.sums[metric_list::loss_sum] =
      models::total(example_losses(*loss, outputs, rows));
    metrics.add(outputs, rows.labels, report.sums);
    return report;
  }

  const models::network net;
  const models::loss* const loss;
  const std::uint64_t seed;
  const parameters layout; ///< Where each parameter is in the variable.
  const server_variable values;
  const server_optimizer optimizer;
  const per_worker<worker_copy> copies;
  std::uint64_t steps = 0;
  std::uint64_t next_epoch = 0; ///< Of the dataset.
};

server_model::server_model(const parameter_server_strategy& strategy,
                           const std::string& name,
                           const models::model_description& architecture,
                           const update_rule& rule,
                           const model_options& options)
  : impl_{std::make_shared<impl>(strategy, name, architecture, rule, options)} {
}

server_model::~server_model() = default;

namespace {

/// Schedules `fn(batch, index)` for each batch of an epoch, and adds up what
/// the closures return.
/// @param first the first batch. @param stop Null: no flag.
/// @returns the sums, and the number of batches.
template <class F>
std::pair<epoch_totals, std::uint64_t>
for_each_batch(cluster_coordinator& coordinator, const data::dataset& batches,
               std::uint64_t epoch, std::uint64_t count,
               const std::atomic<bool>* stop, F fn) {
  const auto read = batches.prefetch(0);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<remote_value<step_metrics>> results;
  for (std::uint64_t i = 0; i < count && !(stop && *stop); ++i)
    results.push_back(coordinator.schedule([read, epoch, i, fn] {
      auto from = read.iterate({epoch, i});
      return fn(*from.next(), i);
    }));
  coordinator.join();
  epoch_totals totals;
  for (const auto& one : results)
    totals.add(one.get());
  totals.seconds =
    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
  return {totals, results.size()};
}

} // namespace

history server_model::fit(cluster_coordinator& coordinator,
                          const data::dataset& batches,
                          const server_fit_options& options) {
  auto& self = *impl_;
  const auto count = check(self.net, batches);
  const auto metrics = metrics_of(*self.loss, options.metrics);
  const auto shared = std::make_shared<const server_fit_options>(options);
  if (options.first_epoch)
    self.next_epoch = *options.first_epoch;
  history out;
  for (std::uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const auto first = self.steps;
    const auto [totals, made] = for_each_batch(
      coordinator, batches, self.next_epoch, count, options.stop,
      [me = impl_, first, metrics, shared](const batch& rows, std::uint64_t i) {
        return me->train(rows, first + i, metrics, *shared);
      });
    self.steps += made;
    if (made < count) {
      out.end = fit_end::interrupted;
      return out;
    }
    ++self.next_epoch;
    epoch_record record{
      .epoch = epoch + 1,
      .steps = self.steps,
      .examples = totals.examples,
      .loss = totals.mean_loss(),
      .metrics = totals.values(metrics),
      .learning_rate = options.schedule ? options.schedule->at(self.steps - 1)
                                        : self.optimizer.rule().learning_rate(),
      .seconds = totals.seconds};
    record.accuracy = accuracy_in(record.metrics);
    if (options.validation) {
      const auto found =
        evaluate(coordinator, *options.validation, {options.metrics});
      record.validation_loss = found.loss;
      record.validation_accuracy = found.accuracy;
      record.validation_metrics = found.metrics;
    }
    if (options.on_epoch_end)
      options.on_epoch_end(record);
    out.epochs.push_back(std::move(record));
  }
  return out;
}

evaluation server_model::evaluate(cluster_coordinator& coordinator,
                                  const data::dataset& batches,
                                  const evaluate_options& options) {
  const auto count = check(impl_->net, batches);
  const auto metrics = metrics_of(*impl_->loss, options.metrics);
  const auto totals =
    for_each_batch(coordinator, batches, 0, count, nullptr,
                   [me = impl_, metrics](const batch& rows, std::uint64_t) {
                     return me->score(rows, metrics);
                   })
      .first;
  evaluation out{totals.examples, totals.mean_loss()};
  out.metrics = totals.values(metrics);
  out.accuracy = accuracy_in(out.metrics);
  return out;
}

std::string server_model::weights_sha256() const {
  sha256 hash;
  const auto flat = impl_->values.value();
  const auto& specs = impl_->net.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto begin = impl_->layout.offset(i);
    hash.add(std::as_bytes(
      flat.range(begin, begin + specs[i].dims.elements()).data<float>()));
  }
  return to_hex(hash.finish());
}

void server_model::copy_to(model& target) const {
  const auto& specs = impl_->net.parameters();
  const auto& to = target.variables();
  bool is_same = specs.size() == to.size();
  for (std::size_t i = 0; is_same && i < specs.size(); ++i)
    is_same = specs[i].name == to[i].name() && specs[i].dims == to[i].dims();
  if (!is_same)
    throw std::invalid_argument(
      "copy_to: the model \"" + target.description().name
      + "\" has other parameters than \"" + impl_->net.name() + "\"");
  const auto flat = impl_->values.value();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto begin = impl_->layout.offset(i);
    to[i].value().copy_from(flat.range(begin, begin + specs[i].dims.elements())
                              .reshaped(specs[i].dims));
  }
}

std::uint64_t server_model::steps() const {
  return impl_->steps;
}

const server_variable& server_model::variable() const {
  return impl_->values;
}

} // namespace troupe
